"""What the built wheel owns, and that it serves as the editable install does."""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from email.parser import BytesParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from draftwire.pair import Pair

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "-q", "wheel", "--no-deps", "-w", str(out), str(ROOT)]
    subprocess.run(pip, check=True)
    return next(out.glob("draftwire-*.whl"))


def test_wheel_owns_nothing_of_sglang(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.split("/")[0] == "sglang"]
    owned = {name.split("/")[0] for name in names}
    assert owned == {"draftwire", "draftwire_overlay", next(n for n in owned if n.endswith(".dist-info"))}


def test_wheel_holds_every_file_of_the_tree(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, package in (("draftwire", "draftwire"), ("sglang", "draftwire_overlay")):
        for file in (ROOT / "python" / folder).rglob("*.py"):
            assert f"{package}/{file.relative_to(ROOT / 'python' / folder)}" in names


def test_no_init_file_shadows_sglang() -> None:
    assert not list((ROOT / "python" / "sglang").rglob("__init__.py"))


def test_wheel_requires_neither_sglang_nor_torch(wheel: Path) -> None:
    """Except through an extra: a person has theirs, and it must not be replaced."""
    archive = zipfile.ZipFile(wheel)
    metadata = archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA")))
    needs = [Requirement(line) for line in BytesParser().parsebytes(metadata).get_all("Requires-Dist", [])]
    always = {need.name for need in needs if not need.marker or need.marker.evaluate({"extra": ""})}
    assert always and not always & {"sglang", "torch"}
    assert [str(need.specifier) for need in needs if need.name == "sglang"] == ["<=0.5.23,>=0.5.14"]


@pytest.mark.slow
def test_wheel_serves_in_the_spawned_scheduler(
    wheel: Path, serve: Callable, pair: Pair, device: str, tmp_path: Path
) -> None:
    """In an environment whose only draftwire is the wheel; SGLang itself comes from this one's site-packages."""
    environment = tmp_path / "env"
    venv.create(environment, with_pip=False, symlinks=True)
    site = next((environment / "lib").glob("python*")) / "site-packages"
    pip = [sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--target", str(site)]
    subprocess.run([*pip, str(wheel), *([str(ROOT / "cpu")] if device == "cpu" else [])], check=True)
    (site / "engine.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    python = str(environment / "bin" / "python")
    where = subprocess.run(
        [python, "-c", "import draftwire, draftwire_overlay as o; print(draftwire.__file__, list(o.__path__))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert str(site) in where and str(ROOT / "python") not in where
    with serve(pair.flags(), python=python) as server:
        answer = server.generate(pair.prompts[0], 32)
        assert answer["meta_info"]["spec_verify_ct"] <= 16
        assert "draftwire: aux hidden states at boundaries [0, 3, 6]" in server.log.read_text()
