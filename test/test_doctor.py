"""The doctor as a whole: verdicts and exit codes, both renderings, bad input, speed, and what it does not import."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import small_drafts as small
from cases import EXAMPLE, FLAGS, IDS, damage, read_config
from sparse import write_header, write_sparse
from typer.testing import CliRunner

from draftwire import checks
from draftwire.cli import app
from draftwire.doctor import collect, examine
from draftwire.finding import Finding

ROOT = Path(__file__).parent.parent
HEALTHY = ["--draft", str(EXAMPLE / "draft"), "--target", str(EXAMPLE / "target"), "--sglang", "0.5.23"]
AS_SERVED = ["--delivery", "overlay"]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SGLANG_PLUGINS", "DRAFTWIRE", "SGLANG_SIMULATE_ACC_LEN"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str):
    return CliRunner().invoke(app, ["doctor", *arguments])


def one_line(*arguments: str) -> str:
    """Could not look: exit status 2, one line on stderr, nothing else."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    assert line.startswith("draftwire: expected ") and "; found " in line
    return line


def test_a_healthy_pair() -> None:
    result = run(*HEALTHY, *AS_SERVED, "--", *FLAGS)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == f"{len(checks.NAMES)} ok, 0 skipped, 0 warning, 0 error: WIRED"
    assert "captures boundaries [0, 3, 6]" in result.stdout


def test_an_error(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", [5, 2, -1])
    result = run("--draft", str(draft), "--target", str(EXAMPLE / "target"), *AS_SERVED)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].endswith("MISWIRED")
    assert "Remedy: Write [-1, 2, 5] and put the column blocks" in result.stdout
    assert "Known from https://" in result.stdout


def test_without_the_target_it_cannot_look() -> None:
    result = run("--draft", str(EXAMPLE / "draft"))
    assert result.exit_code == 2
    assert "UNKNOWN" in result.stdout and "Name --target" in result.stdout


def test_a_warning_in_the_wiring_is_not_called_wired(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", [2, 5, 8])
    result = run("--draft", str(draft), "--target", str(EXAMPLE / "target"), *AS_SERVED)
    assert (result.exit_code, result.stdout.splitlines()[-1].split()[-1]) == (0, "UNKNOWN")


def test_text_and_json_tell_the_same(tmp_path: Path) -> None:
    arguments = ["--draft", str(damage(tmp_path / "d", [0, 3])), "--target", str(EXAMPLE / "target"), *AS_SERVED]
    told, text = json.loads(run(*arguments, "--json").stdout), run(*arguments).stdout
    assert told["verdict"] == "MISWIRED" and told["status"] == 1 and told["boundaries"] == [0, 3]
    lines = " ".join(text.split())
    for finding in told["findings"]:
        assert f"{finding['level']} {finding['check']}" in lines
        if finding["level"] in ("warning", "error"):
            assert all(part in lines for part in (finding["text"], finding["remedy"], *finding["evidence"]))
    assert sum(told["counts"].values()) == len(told["findings"])


def test_80_columns_and_no_colour(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", [2, 5, 99], rope_theta=1e6, fc_norm=True, num_key_value_heads=4)
    for delivery in ("stock", "overlay"):
        text = run("--draft", str(draft), "--target", str(EXAMPLE / "target"), "--delivery", delivery).stdout
        assert "\x1b" not in text
        wide = [line for line in text.splitlines() if len(line) > 80 and str(tmp_path) not in line]
        assert not wide


def test_names_from_files_cannot_steer_a_terminal(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", architectures=["\x1b[31mred\x07"], tensors=None)
    assert "\x1b" not in run("--draft", str(draft), "--target", str(EXAMPLE / "target")).output


def test_colour_on_a_terminal() -> None:
    from draftwire.rendering import render

    report = examine(collect(str(EXAMPLE / "draft"), str(EXAMPLE / "target"), environment={}))
    assert "\x1b[32mok" in render(report, colour=True)


def test_only_one_check() -> None:
    result = run(*HEALTHY, "--only", "fc_width")
    assert result.exit_code == 0 and result.stdout.splitlines()[-1].endswith("UNKNOWN")
    assert [line for line in result.stdout.splitlines() if line.startswith("ok")] == ["ok        fc_width"]
    assert run("--draft", str(EXAMPLE / "draft"), "--only", "flags_kept").exit_code == 2


def test_list_and_explain() -> None:
    lines = run("--list").stdout.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == list(checks.NAMES)
    for name in checks.NAMES:
        page = run("--explain", name).stdout
        assert page.split() == checks.load(name).__doc__.split()
        lines += page.splitlines()
    assert max(map(len, lines)) <= 80
    assert "fc_wide" in one_line("--explain", "fc_wide")
    assert "fc_wide" in one_line(*HEALTHY, "--only", "fc_wide")


def test_a_check_has_one_name_in_every_place() -> None:
    files = {file.stem for file in (ROOT / "python/draftwire/checks").glob("*.py")} - {"__init__"}
    tests = {file.stem.removeprefix("test_") for file in (ROOT / "test/checks").glob("test_*.py")}
    changelog = set(re.findall(r"`(\w+)`", (ROOT / "CHANGELOG.md").read_text()))
    assert files == tests == set(checks.NAMES) and set(checks.WIRING) <= files <= changelog
    assert len(checks.NAMES) == len(set(checks.NAMES))


@pytest.mark.parametrize("name", checks.NAMES)
def test_every_page_is_whole(name: str) -> None:
    page = checks.load(name).__doc__
    parts = re.findall(r"^(What|Why|Example|Remedy|Reports):", page, re.M)
    assert parts == ["What", "Why", "Example", "Remedy", "Reports"]
    assert page.splitlines()[0].endswith(".") and max(map(len, page.splitlines())) <= 120


def test_a_check_that_throws_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def throw(case: object) -> Finding:
        raise RuntimeError("on purpose")

    case = collect(str(EXAMPLE / "draft"), str(EXAMPLE / "target"), environment={})
    for broken in (throw, lambda case: None, lambda case: []):
        monkeypatch.setattr(checks.load("fc_width"), "check", broken)
        report = examine(case, ["fc_width"])
        assert report.status == 1 and report.findings[0][1].level == "error"
    with pytest.raises(ValueError, match="remedy"):
        Finding("error", "without one")
    with pytest.raises(ValueError, match="level"):
        Finding("fine", "no such level")


# ---- what it needs


def test_it_imports_neither_torch_nor_sglang() -> None:
    program = (
        "import sys\nfrom draftwire.cli import app\n"
        f"try: app(['doctor', *{[*HEALTHY, '--', *FLAGS]!r}])\nexcept SystemExit as end: code = end.code\n"
        "heavy = {n.split('.')[0] for n in sys.modules} & {'torch', 'sglang', 'numpy', 'transformers', 'safetensors'}\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def write_kimi(folder: Path) -> list[str]:
    """Kimi-K2.5's geometry, headers only: 61 layers of 384 experts in 62 shards, and a draft of 7,168."""
    target = folder / "target"
    target.mkdir(parents=True)
    facts = json.loads((ROOT / "test/reports/pipeline.json").read_text())
    (target / "config.json").write_text(json.dumps(facts["target"]))
    places = {}
    for number in range(62):
        shard, prefix = f"model-{number + 1:05d}-of-00062.safetensors", f"language_model.model.layers.{number - 1}.mlp"
        shapes: dict = {}
        if number == 0:
            shapes["language_model.model.embed_tokens.weight"] = ("BF16", [163840, 7168])
        elif number > 1:
            for expert in range(384):
                for part in ("gate_proj", "up_proj", "down_proj"):
                    for kind in ("weight_packed", "weight_scale", "weight_shape"):
                        shapes[f"{prefix}.experts.{expert}.{part}.{kind}"] = ("I64", [2048, 112])
        else:
            shapes[f"{prefix}.gate_proj.weight"] = ("BF16", [18432, 7168])
        write_header(target / shard, shapes)
        places |= dict.fromkeys(shapes, shard)
    (target / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    draft = write_sparse(folder / "draft", facts["draft"], {"embed_tokens.weight": [163840, 7168]})
    return ["--draft", str(draft), "--target", str(target)]


def test_kimi_in_a_second_and_200_megabytes(tmp_path: Path) -> None:
    arguments = [*write_kimi(tmp_path), "--sglang", "0.5.23", "--delivery", "stock", "--", *FLAGS]
    program = (
        "import resource, sys\nfrom draftwire.cli import app\n"
        f"try: app(['doctor', *{arguments!r}])\nexcept SystemExit as end: code = end.code\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        # ru_maxrss would count the process that forked this one.
        "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(used.ru_utime + used.ru_stime, int(peak) / 1024, code)"
    )
    runs = []
    for _ in range(3):  # Another program on the machine costs this one processor time too.
        ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        runs.append([float(number) for number in ran.stdout.splitlines()[-1].split()])
    print("s of CPU, MB, status:", runs)
    assert {code for _, _, code in runs} == {0}, ran.stdout
    assert min(seconds for seconds, _, _ in runs) < 1
    assert max(megabytes for _, megabytes, _ in runs) < 200


# ---- bad input


def test_nothing_named() -> None:
    assert "none named" in one_line()
    assert "neither" in one_line("--draft", "/nothing/here")
    assert "some/draft" in one_line("--draft", "some/draft")
    assert "newest" in one_line("--draft", str(EXAMPLE / "draft"), "--sglang", "newest")
    assert "both" in one_line("--draft", str(EXAMPLE / "draft"), "--delivery", "both")
    assert "architectures" in one_line("--draft", str(EXAMPLE / "target"))


HEADER = struct.pack("<Q", 2) + b"{}"


@pytest.mark.parametrize(
    "content",
    [b"", HEADER[:5], struct.pack("<Q", 10 * 2**30), struct.pack("<Q", 2**63) + b"{}", struct.pack("<Q", 4) + b"null",
     struct.pack("<Q", 2) + b"{]", struct.pack("<Q", 90_000) + b"[" * 90_000],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["draft", "target"])
def test_headers(tmp_path: Path, content: bytes, kind: str) -> None:
    folder = tmp_path / kind
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(read_config(kind)))
    (folder / "model.safetensors").write_bytes(content)
    other = "target" if kind == "draft" else "draft"
    one_line(f"--{kind}", str(folder), f"--{other}", str(EXAMPLE / other))


def test_a_header_of_10_gigabytes(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", tensors={})
    with (draft / "model.safetensors").open("wb") as stream:
        stream.write(struct.pack("<Q", 10 * 2**30))
        stream.truncate(8 + 10 * 2**30)
    assert str(10 * 2**30) in one_line("--draft", str(draft))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "\xff\xfe", '{"a": 1'])
@pytest.mark.parametrize("kind", ["draft", "target"])
def test_json(tmp_path: Path, text: str, kind: str) -> None:
    folder = tmp_path / kind
    folder.mkdir()
    (folder / "config.json").write_text(text, encoding="latin-1")
    (folder / "model.safetensors").write_bytes(HEADER)
    other = "target" if kind == "draft" else "draft"
    one_line(f"--{kind}", str(folder), f"--{other}", str(EXAMPLE / other))


def test_links_that_go_round(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft")
    for name in ("model.safetensors", "config.json"):
        (draft / name).unlink()
        (draft / name).symlink_to(name)
        one_line("--draft", str(draft))
    (tmp_path / "loop").symlink_to("loop")
    one_line("--draft", str(tmp_path / "loop"))


@pytest.mark.skipif(os.geteuid() != 0, reason="rights are taken away by becoming another user")
def test_a_directory_without_rights(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft")
    draft.chmod(0)
    program = (
        "import os\nfrom typer.testing import CliRunner\nfrom draftwire.cli import app\n"
        # All that is imported on the way is imported once with rights.
        f"CliRunner().invoke(app, ['doctor', '--draft', '/nothing/here'])\n"
        f"CliRunner().invoke(app, ['doctor', *{HEALTHY!r}])\n"
        f"os.setgroups([]); os.setgid(65534); os.setuid(65534)\napp(['doctor', '--draft', {str(draft)!r}])"
    )
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    draft.chmod(0o755)
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (2, "", 1), ran.stderr
    assert ran.stderr.startswith("draftwire: expected ")


@pytest.mark.parametrize(
    "text",
    ["", "a: [", "- 1", "3: 4", "tp-size: {", "x: &a [*a]", "pp-size: two", "a: [[1]]", "\x00",
     "a: !!python/object:x {}",
     "speculative-draft-model-path: [1, 2]", "? [a]\n: b", "pp-size: 1e99", "\ufeff{", "a: " + "[" * 3000],
)  # fmt: skip
def test_yaml(tmp_path: Path, text: str) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(text, encoding="utf-8")
    result = run(*HEALTHY, "--serve", str(file))
    assert result.exit_code in (0, 1, 2) and not result.stderr.count("Traceback")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    if result.exit_code == 2:
        assert len(result.stderr.splitlines()) == 1 and str(file.name) in result.stderr


@pytest.mark.parametrize("config", [{}, {IDS: 3}, {"eagle_config": {IDS: [None]}}, {"rope_scaling": {"factor": "x"}}])
def test_configs_with_other_types(tmp_path: Path, config: dict) -> None:
    """Keys of other types are findings, not tracebacks; and no check throws."""
    names = ["hidden_size", "vocab_size", "num_attention_heads", "layer_types", "max_position_embeddings"]
    names += ["num_hidden_layers", "draft_vocab_size", "rope_theta", "model_type"]
    keys = {name: {"a": [1]} for name in names}
    draft = damage(tmp_path / "draft", **keys, **config)
    result = run("--draft", str(draft), "--target", str(EXAMPLE / "target"), "--json")
    assert result.exit_code == 1
    assert "The check itself failed." not in {f["text"] for f in json.loads(result.stdout)["findings"]}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_output_that_cannot_be_written(more: list[str]) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "draftwire", "doctor", *HEALTHY, *more],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1), ran.stderr
    assert ran.stderr.startswith("draftwire: expected ")


def test_what_nobody_reported_is_not_said_to_be_known_from_a_report() -> None:
    """A check's page may name reports of its other findings."""
    flags = FLAGS[:-2]
    assert FLAGS[-2] == "--max-running-requests"
    draft, target = str(EXAMPLE / "draft"), str(EXAMPLE / "target")
    case = collect(draft, target, None, flags, "0.5.23", "overlay", {})
    (_, found), *others = examine(case, ["flags_kept"]).findings
    assert (found.level, found.report, others) == ("warning", "", [])
    case = collect(draft, target, None, [*flags, "--speculative-num-steps", "9"], "0.5.23", "overlay", {})
    reports = [finding.report for _, finding in examine(case, ["flags_kept"]).findings]
    assert reports == ["https://github.com/sgl-project/SpecForge/issues/310", ""]


def test_the_targets_embedding_is_none_of_a_layer(tmp_path: Path) -> None:
    """A built-in draft layer has an embedding of its own, in the same files."""
    from draftwire.target import read_target

    config = {"architectures": ["A"], "num_hidden_layers": 2, "hidden_size": 2, "vocab_size": 4}
    own = "model.layers.2.embed_tokens.weight"
    for number, (name, indexed) in enumerate(
        (("language_model.model.embed_tokens.weight", False), ("language_model.model.embed_tokens.weight", True),
         (None, False), (None, True))
    ):  # fmt: skip
        tensors = {own: small.floats(4, 3)} | ({name: small.floats(4, 2)} if name else {})
        folder = small.write(tmp_path / str(number), config, tensors, shards=2 if indexed else 1)
        embedding = read_target(folder).embedding
        assert (embedding and embedding.shape) == ((4, 2) if name else None)
