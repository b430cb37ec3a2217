"""What is installed, what `import sgl_kernel` finds, and that it is all that SGLang asks for on this path."""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import sgl_kernel
import torch

ROOT = Path(__file__).parents[1]
PACKAGE = [*(ROOT / "draftwire_cpu").glob("*.py")]
UPSTREAM = importlib.util.find_spec("sglang")


def imported(path: Path, statement: str = "import sgl_kernel; print(sgl_kernel.__file__)"):
    environment = os.environ | {"PYTHONPATH": f"{path}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", statement]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=path)


@pytest.mark.parametrize("name", ["sglang-kernel", "sgl-kernel"])
def test_import_is_refused_beside_upstreams_distribution(tmp_path, name):
    metadata = tmp_path / f"{name.replace('-', '_')}-0.4.10.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.4.10\n")
    done = imported(tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: draftwire-cpu provides sgl_kernel only where nothing else does")
    assert f"{name} 0.4.10" in last and f"pip uninstall {name}" in last


def test_the_wheel_shares_no_file_with_upstreams_package_and_yields_to_it(tmp_path):
    source = tmp_path / "source"
    for name in ("pyproject.toml", "README.md", "sgl_kernel.py", *(f"draftwire_cpu/{p.name}" for p in PACKAGE)):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-qq", "-w", tmp_path, source]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("draftwire_cpu-*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(site)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"sgl_kernel.py", "draftwire_cpu"}
    (points,) = site.glob("*.dist-info/entry_points.txt")
    assert points.read_text().split() == [
        "[sglang.srt.plugins]", "draftwire_cpu", "=", "draftwire_cpu.platform:activate"
    ]  # fmt: skip
    assert imported(site).stdout.strip() == str(site / "sgl_kernel.py")
    (site / "sgl_kernel").mkdir()
    (site / "sgl_kernel" / "__init__.py").touch()
    assert imported(site).stdout.strip() == str(site / "sgl_kernel" / "__init__.py")


def asked_for(tree: ast.Module):
    """Names imported from sgl_kernel that are CPU kernels."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "sgl_kernel":
            yield from (alias.name for alias in node.names if alias.name.endswith("_cpu"))


@pytest.mark.skipif(UPSTREAM is None, reason="SGLang is not installed")
def test_sglang_imports_no_cpu_kernel_that_is_missing():
    sources = [Path(UPSTREAM.submodule_search_locations[0], part) for part in ("srt", "kernels")]
    texts = [path.read_text() for source in sources for path in source.rglob("*.py")]
    asked = {name for text in texts if "from sgl_kernel import" in text for name in asked_for(ast.parse(text))}
    assert asked == set(sgl_kernel.__all__)


def test_no_operator_for_packed_weights_is_defined():
    """SGLang takes its layers' packed-weight paths, which are not provided, where this one exists."""
    assert not hasattr(torch.ops.sgl_kernel, "convert_weight_packed")
    assert hasattr(torch.ops.sgl_kernel, "decode_attention_cpu")
    assert hasattr(torch.ops.sgl_kernel, "extend_attention_cpu")
