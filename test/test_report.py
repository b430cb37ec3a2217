"""benchmarks/REPORT.md and its charts: made by their command, byte for byte, and true to the rows."""

import builtins
import hashlib
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
from bench_rows import bench_row, entry, measured
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from draftwire import report_command
from draftwire.bench.chart_titles import wrapped
from draftwire.bench.charts import draw_all, spread
from draftwire.bench.checked import compare, repeated
from draftwire.bench.panels import acceptance_panels, prediction_panels, speed_panels
from draftwire.bench.refusals import BenchError
from draftwire.bench.report import CHARTS, COMMAND, read_rows, write_report
from draftwire.bench.tuning import Study
from draftwire.cli import app

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
OTHER = {"benchmark": "doctor_speed", "command": "python speed.py", "date": "2026-11-29", "commit": "1", "seconds": 2.5}


def tune_row(**fields) -> dict:
    run = bench_row(1, 5)
    found = Study(run, 5).findings()
    checked = [m | {key: m[key] * 0.8 for key in ("tok_s", "tok_s_min", "tok_s_max")} for m in measured(2, 3)]
    row = {key: value for key, value in run.items() if key != "measurements"} | {"command": "draftwire tune a.yaml"}
    return (
        row
        | found
        | {
            "benchmark": "tune",
            "checked": compare(found["predictions"], checked, run["measurements"]),
            "repeated": repeated(run["measurements"], checked),
        }
        | fields
    )


ROWS = [OTHER, bench_row(1, 2, 3, 5), tune_row(), bench_row(3, device="NVIDIA H200", driver="570", tp_size=8)]


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return draw_all(ROWS)


def test_the_report_in_the_tree_is_generated() -> None:
    """Text and SVG byte for byte; each PNG names the SVG that it is a picture of."""
    rows = read_rows((BENCHMARKS / "results.jsonl").read_text(), "results.jsonl")
    drawn = draw_all(rows)
    report = (BENCHMARKS / "REPORT.md").read_text()
    assert report == write_report(rows, drawn), f"run `{COMMAND}`"
    assert COMMAND in report.splitlines()[0]
    there = {file.name for file in (BENCHMARKS / "charts").glob("*")}
    assert there == set(drawn), f"run `{COMMAND}`"
    for name in sorted(there):
        content = (BENCHMARKS / "charts" / name).read_bytes()
        if name.endswith(".svg"):
            assert content == drawn[name], f"run `{COMMAND}`"
        else:
            picture = Image.open(BENCHMARKS / "charts" / name)
            svg = drawn[name.replace(".png", ".svg")]
            assert picture.text["svg-sha256"] == hashlib.sha256(svg).hexdigest(), f"run `{COMMAND}`"


def test_the_same_rows_give_the_same_bytes(files: dict[str, bytes]) -> None:
    assert draw_all(json.loads(json.dumps(ROWS))) == files
    assert sorted(files) == sorted(report_command.NAMES)


def test_a_png_has_the_colours_of_its_svg(files: dict[str, bytes]) -> None:
    for name in CHARTS:
        found = Image.open(io.BytesIO(files[f"{name}.png"])).convert("RGB").getcolors()
        for colour in set(re.findall(rb": #(\w{6})", files[f"{name}.svg"])):
            there = bytes.fromhex(colour.decode())
            assert min(max(abs(a - b) for a, b in zip(there, one, strict=True)) for _, one in found) < 32, (
                name,
                colour,
            )


def test_every_figure_of_a_row_is_in_the_report() -> None:
    text = write_report(ROWS)
    for row in ROWS[1:]:
        assert f"`{row['command']}`" in text and row["device"] in text and row["draft_sha256"][:8] in text
        for m in [*row["measurements"], *row.get("checked", ())] if row["benchmark"] == "bench" else row["checked"]:
            assert f"{m['tok_s']:,.1f} ({m['tok_s_min']:,.1f} to {m['tok_s_max']:,.1f})" in text
    assert "driver 570" in text and "tp 8" in text
    assert "### doctor_speed, 2026-11-29" in text and "seconds 2.5" in text
    assert text.index("NVIDIA H200, tp 8") < text.index("cpu, 2 cores"), "newest first"
    assert text.index("### tune") < text.index("### bench, 2026-11-30\n\n`draftwire bench a.yaml`", text.index("cpu"))


def test_the_report_follows_its_rows() -> None:
    before = write_report([bench_row(3)])
    slower = bench_row(3)
    slower["measurements"][1] |= {"tok_s": 12.3, "tok_s_min": 11.1, "tok_s_max": 13.1}
    assert "12.3 (11.1 to 13.1)" in write_report([slower]) and "12.3 (11.1" not in before


def test_what_was_refused_and_what_missed_is_said() -> None:
    bad = bench_row(3)
    bad["measurements"][1] |= {"speedup": None, "refused": "expected no failed requests, found 3 in eagle3"}
    assert "No ratio at 1 at once, length eos: expected no failed requests, found 3" in write_report([bad])
    row = tune_row()
    assert "**outside**" in write_report([row]), "predicted 25% over what was measured, and 19% over its most"
    assert "Fastest of those measured afterwards: at 1 at once" in write_report([row])
    assert "Not checked: server ended" in write_report([tune_row(checked=[], check_failed="server ended")])
    assert "extrapolated" not in write_report([row])
    row["predictions"][0]["extrapolated"] = True
    assert "(extrapolated)" in write_report([row])


def test_flags_are_in_the_heading_and_tell_settings_apart() -> None:
    report = write_report([bench_row(3), bench_row(3, flags=["--dp-size", "8"])])
    assert "## a: cpu, 2 cores, SGLang 0.5.23, overlay, `--dp-size 8`\n" in report
    assert "## a: cpu, 2 cores, SGLang 0.5.23, overlay\n" in report


def test_drafts_of_the_same_weights_are_told_apart_by_their_config() -> None:
    report = write_report([bench_row(3, draft_config_sha256="12345678ff"), bench_row(3)])
    assert "draft cdcdcdcd, its config 12345678, " in report and "draft cdcdcdcd, 64 prompts" in report


def test_what_the_first_run_served_is_no_prediction() -> None:
    """Of a run at 1 and 5 steps, with 3 and 5 checked; all of it a quarter over what was measured."""
    row = tune_row()
    checked = [m | {key: m[key] * 0.8 for key in ("tok_s", "tok_s_min", "tok_s_max")} for m in measured(3, 5)]
    row["checked"] = compare(row["predictions"], checked, row["measurements"])
    lines = write_report([row]).splitlines()
    cells = {s: next(line for line in lines if line.startswith(f"| 1 | {s} |")) for s in (1, 3, 5)}
    assert all(("(as measured)" in cells[s]) == (s != 3) for s in cells)
    assert "| +25.0%, measured twice |" in cells[5] and "**outside**" not in cells[5]
    assert "+25.0% **outside** |" in cells[3] and "twice" not in cells[3]


def test_a_tree_at_as_many_steps_makes_no_prediction_measured() -> None:
    row = tune_row()
    chain = next(m for m in row["measurements"] if m["steps"] == 5)
    row["measurements"] = [*row["measurements"], chain | {"steps": 3, "topk": 2}, chain | {"steps": 4, "arm": "mtp"}]
    cells = [line for line in write_report([row]).splitlines() if re.match(r"\| 1 \| [34] \|", line)]
    assert len(cells) == 2 and "as measured" not in "".join(cells)


def test_costs_within_noise_are_not_given_a_sign() -> None:
    row = tune_row()
    noise = {"concurrency": 1, "plain": 1.176, "another_step": 0.012, "steps": 5, "verify": 1.403, "draft": -0.033}
    row["costs"] = [noise | {"rest": 0.05}]
    assert "| 1 | 1.2 | ~0 | 1.4 (6 tokens) | ~0 | 0.1 |" in write_report([row])


def test_the_head_says_what_its_words_mean() -> None:
    head = write_report(ROWS).split("\n## ")[0]
    for word in ("`+` after a commit", "*Off by*", "*Rebased*", "**outside**", "*As measured*", "*verify*", "*draft*",
                 "*rest*", "*~0*", "last step, which is cut short", "latest"):  # fmt: skip
        assert word in head, word


def test_without_a_row_there_is_a_report_and_no_chart() -> None:
    assert draw_all([OTHER]) == {}
    assert "No row of `draftwire bench` yet" in write_report([OTHER]) and "doctor_speed" in write_report([OTHER])


def test_charts_show_the_latest_row_of_a_setting() -> None:
    panels = speed_panels([bench_row(3, commit="old"), bench_row(3, device="gpu"), bench_row(1, 5)])
    assert [(p.title, p.subtitle) for p in panels] == [
        ("a", "cpu, 2 cores, SGLang 0.5.23, overlay"),
        ("a", "gpu, SGLang 0.5.23, overlay"),
    ]
    assert [s.label for s in panels[0].series] == ["no draft", "EAGLE-3, 1 step", "EAGLE-3, 5 steps"]
    assert [point[0] for point in panels[0].series[0].points] == [1, 8, 32]


def test_a_row_that_does_not_name_the_drafts_config_gives_way_to_one_that_does() -> None:
    old, new, other = bench_row(3), bench_row(5, draft_config_sha256="aa"), bench_row(1, draft_config_sha256="bb")
    assert [s.label for p in speed_panels([old, new]) for s in p.series] == ["no draft", "EAGLE-3, 5 steps"]
    assert len(speed_panels([old, new, other])) == 2 and len(speed_panels([old, {**old, "config": "b.yaml"}, new])) == 2


def test_a_row_without_a_baseline_hides_none_that_has_one() -> None:
    alone = bench_row(5)
    alone["measurements"] = [m for m in alone["measurements"] if m["arm"] != "baseline"]
    assert [s.label for s in speed_panels([bench_row(3), alone])[0].series] == ["no draft", "EAGLE-3, 3 steps"]
    assert [s.label for s in speed_panels([alone])[0].series] == ["EAGLE-3, 5 steps"]
    assert len(speed_panels([alone, bench_row(3)])) == 1


def test_speed_is_drawn_over_several_concurrencies_where_there_are_some() -> None:
    wide, narrow = bench_row(3, concurrency=(1, 8)), bench_row(1, 5, concurrency=(1,))
    assert [s.label for s in speed_panels([wide, narrow])[0].series] == ["no draft", "EAGLE-3, 3 steps"]
    assert [s.label for s in speed_panels([narrow])[0].series][-1] == "EAGLE-3, 5 steps"
    elsewhere = narrow | {"flags": ["--dp-size", "8"]}
    assert [(p.title, p.flags) for p in speed_panels([wide, elsewhere])] == [("a", "--dp-size 8"), ("a", "")]


def test_charts_show_one_delivery_of_the_same_states() -> None:
    """The overlay's, whatever was measured last; what differs in more than that has a panel of its own."""
    ways = [bench_row(3, delivery=by, draft_config_sha256=by) for by in ("overlay", "stock", "patch")]
    for panels in (speed_panels(ways), acceptance_panels(ways)):
        assert [p.subtitle for p in panels] == ["cpu, 2 cores, SGLang 0.5.23, overlay"]
    assert (
        len(speed_panels(ways[1:])) == 2 and len(speed_panels([*ways, bench_row(3, delivery="stock", device="g")])) == 2
    )


def test_panels_of_one_device_have_one_scale() -> None:
    slow = bench_row(3, config="b.yaml")
    for e in slow["measurements"]:
        e |= {key: e[key] / 2 for key in ("tok_s", "tok_s_min", "tok_s_max")}
    panels = speed_panels([slow, bench_row(3), bench_row(3, device="gpu")])
    series = [s for p in panels if p.subtitle.startswith("cpu") for s in p.series]
    heights = [y for s in series for point in s.points for y in point[1:]]
    assert [p.ends for p in panels[1:]] == [(min(heights), max(heights))] * 2
    assert panels[0].ends[0] == 2 * min(heights)


def test_rows_whose_arms_shared_a_server_are_marked_and_not_drawn() -> None:
    first = {key: value for key, value in bench_row(1).items() if key != "always_cut"}
    said = "The two visits of the arm in the middle of the order were one server's: its spread is too small."
    assert said in write_report([first]) and said not in write_report([bench_row(1)])
    later = bench_row(3, config="other.yaml")
    assert [p.title for p in speed_panels([first, later])] == ["other"]
    assert [p.title for p in speed_panels([first])] == ["a"]


def test_what_a_reader_must_know_of_a_row() -> None:
    """The servers' other differences, and that a fixed length would have asked for the same."""
    differs = {"eagle3 3/1/4": {"disable_overlap_schedule": [False, True]}, "mtp 1/1/2": {}}
    report = write_report([bench_row(3, always_cut=True, server_differs=differs)])
    assert "Every answer was cut at the most tokens: at fixed length the requests are the same." in report
    said = "Beside its draft, eagle3 3/1/4 differs from the baseline by SGLang's own choice: disable_overlap_schedule"
    assert f"{said} False -> True." in report and "mtp 1/1/2" not in report
    differs["mtp 1/1/2"] = differs["eagle3 3/1/4"]
    said = "Beside their drafts, eagle3 3/1/4, mtp 1/1/2 differ from the baseline by SGLang's own choice"
    assert said in write_report([bench_row(3, server_differs=differs)])
    assert "1.87x (1.68 to 2.06)" in report


def test_a_measured_tree_is_said() -> None:
    measured = {"accept_length": 3.5, "tok_s": 80.0, "tok_s_min": 79.0, "tok_s_max": 81.0, "chain_tok_s": 86.0}
    measured["speedup"] = 1.6
    row = tune_row()
    report = write_report([row | {"tree": row["tree"] | {"measured": measured}}])
    assert "Measured, it accepts 3.50 and makes 80.0 (79.0 to 81.0) tok/s; the chain beside it 86.0." in report
    assert "is not predicted" not in report and "is not predicted" in write_report([row])


def test_labels_tell_trees_and_heads_apart() -> None:
    row = bench_row(3)
    tree = row["measurements"][1] | {"topk": 4, "draft_tokens": 8}
    row["measurements"] += [tree, row["measurements"][1] | {"arm": "mtp"}]
    labels = [s.label for s in speed_panels([row])[0].series]
    assert labels == ["no draft", "EAGLE-3, 3 steps", "EAGLE-3, 3 steps, tree of 4, 8 tokens", "MTP, 3 steps"]
    assert acceptance_panels([row])[0].series[0].label == "EAGLE-3, 3 steps: 2.73 a step"


def test_fixed_lengths_stay_out_of_the_charts() -> None:
    row = bench_row(3)
    row["measurements"].append(entry("eagle3", 3, 999.0, 64, length="fixed"))
    assert all(point[0] < 64 for s in speed_panels([row])[0].series for point in s.points)


def test_predicted_and_measured_at_the_concurrency_tuned_for() -> None:
    panel = prediction_panels([tune_row()])[0]
    plain, predicted, checked = panel.series
    assert panel.title == "a, 1 at once"
    assert [s.kind for s in panel.series] == ["baseline", "predicted", "measured"]
    assert [point[0] for point in predicted.points] == [1, 2, 3, 4, 5] and [p[0] for p in checked.points] == [2, 3]
    assert plain.points[0][1] == plain.points[1][1] == pytest.approx(measured()[0]["tok_s"])


def test_no_drafts_band_is_of_both_runs() -> None:
    """Of its own concurrency only; a row of one run has the first's."""
    here = measured()[0]
    at, elsewhere = {"concurrency": 1, "steps": None, "before": here["tok_s"]}, {"concurrency": 8, "steps": None}
    other = [elsewhere | {"before": 1.0, "after": 1.0}, at | {"steps": 3, "after": 1.0}]
    for after, ends in ((20.0, (20.0, here["tok_s_max"])), (999.0, (here["tok_s_min"], 999.0))):
        row = tune_row(repeated=[*other, at | {"after": after}])
        for point in prediction_panels([row])[0].series[0].points:
            assert point[1:] == (here["tok_s"], *ends)
    for row in (tune_row(repeated=other), {k: v for k, v in tune_row().items() if k != "repeated"}):
        assert prediction_panels([row])[0].series[0].points[0][2:] == (here["tok_s_min"], here["tok_s_max"])


FLAGS = ("--dp-size 8 --enable-dp-attention --moe-a2a-backend deepep --enable-two-batch-overlap --max-running-requests "
         "256 --chunked-prefill-size 16384 --mem-fraction-static 0.85 --disable-cuda-graph-padding")  # fmt: skip


def long_rows(row: dict) -> list[dict]:
    names = ("kimi-k2.5-h200-mla-throughput", "deepseek-v3.2-b200-x16-two-node-attention-latency-and-throughput")
    fields = {"device": "NVIDIA H200 141GB HBM3 SXM of two hosts", "temperature": 0.7, "tp_size": 8}
    fields |= {"flags": FLAGS.split()}
    return [row | fields | {"config": f"configs/{name}.yaml", "sglang": release}
            for name in names for release in ("0.5.22", "0.5.23")]  # fmt: skip


@pytest.mark.parametrize("columns", [1, 4])
def test_titles_fit_their_panels(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are drawn: within the picture, and over no other text of any panel nor over another's axes."""
    from matplotlib.figure import Figure

    drawn: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (drawn.append(self), save(self, *a, **k))[1])
    rows = [*long_rows(bench_row(1, 3, 5))[:columns], *long_rows(tune_row())[:columns]]
    assert len(draw_all(rows)) == 6 and len(drawn) == 6
    for figure in drawn:
        boxes = []
        for axes in figure.axes:
            words = [axes._left_title, *axes.texts, axes.xaxis.label, axes.yaxis.label]
            boxes += [(axes, text, text.get_window_extent()) for text in words if text.get_text()]
        assert sum("--dp-size 8" in text.get_text() for _, text, _ in boxes) == columns
        assert sum("0.7" in text.get_text() for _, text, _ in boxes) >= columns // 2
        for axes, text, box in boxes:
            assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, text
            assert not [other for _, other, it in boxes if other is not text and box.overlaps(it)], text
            assert not [it for it in figure.axes if it is not axes and it.axison and box.overlaps(it.bbox)], text


def test_long_lines_are_broken_between_parts_and_then_cut() -> None:
    def short(line: str) -> bool:
        return len(line) <= 10

    assert wrapped("", short, 2) == [] and wrapped("aa bb", short, 2) == ["aa bb"]
    assert wrapped("aa, bbb, cccc d", short, 2) == ["aa, bbb,", "cccc d"]
    assert wrapped("--a 1 --b 2 --c --d", short, 1) == ["--a 1 --b\N{HORIZONTAL ELLIPSIS}"]
    assert wrapped("--a 12345 --b 12345 --c 1", short, 3) == ["--a 12345", "--b 12345", "--c 1"]
    assert wrapped("a-name-that-is-long", short, 2) == ["a-name-th\N{HORIZONTAL ELLIPSIS}"]


def test_svg_is_small_text_without_fonts_or_dates(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        assert len(content) < 25_000, (name, len(content))
        if name.endswith(".svg"):
            root = ElementTree.fromstring(content)
            words = {"".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")}
            assert b"font-face" not in content and b"2026" not in content and b"Matplotlib" not in content
            assert words & {"EAGLE-3, 3 steps", "EAGLE-3, 3 steps: 2.73 a step", "predicted"}, words


def test_heights_in_the_chart_are_the_rows_speeds() -> None:
    """Read back from the SVG: the baseline's dashed line, on an axis that begins at 0 tokens a second."""
    row = bench_row(3, concurrency=(1, 4))
    svg = draw_all([row])["speed.svg"].decode()
    dashed = re.search(r'd="M (\S+) (\S+) L (\S+) (\S+)" style="[^"]*stroke-dasharray', svg)
    _, ground = re.findall(r'<path d="M \S+ (\S+) [^"]*" style="fill: #ffffff"', svg)  # Figure, axes.
    assert dashed
    one, four = (float(ground) - float(dashed[i]) for i in (2, 4))
    speeds = [m["tok_s"] for m in row["measurements"] if m["arm"] == "baseline"]
    assert four / one == pytest.approx(speeds[1] / speeds[0], rel=0.01)


@given(st.lists(st.floats(0, 300), max_size=8), st.floats(0, 30))
def test_names_are_moved_apart_and_no_further(wanted: list[float], gap: float) -> None:
    places = spread(wanted, gap)
    ordered = sorted(places)
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(ordered))
    assert [places[i] for i in sorted(range(len(wanted)), key=lambda i: wanted[i])] == ordered
    if all(b - a >= gap for a, b in pairwise(sorted(wanted))):
        assert places == pytest.approx(wanted)
    assert sum(places) == pytest.approx(sum(wanted), abs=1e-6)


@pytest.mark.parametrize("line", ["{", "[]", '{"benchmark": 3}', '{"tok_s": 1}', "null"])
def test_a_line_that_is_no_row(line: str) -> None:
    with pytest.raises(BenchError, match=r"expected a JSON object .*, found .* in r\.jsonl line 2"):
        read_rows(f'{{"benchmark": "x"}}\n{line}\n', "r.jsonl")


@pytest.mark.parametrize("key", ["device", "measurements", "predictions", "tpot_ms"])
def test_a_row_without_what_its_benchmark_writes(key: str) -> None:
    row = tune_row()
    row.pop(key, None)
    row["measurements"] = [{k: v for k, v in m.items() if k != key} for m in row.get("measurements", [])]
    if key == "measurements":
        del row[key]
    with pytest.raises(BenchError, match=f"expected {key} in a row .*, found none in r line 1"):
        read_rows(json.dumps(row), "r")


def test_the_command_writes_and_removes(tmp_path: Path, files: dict[str, bytes]) -> None:
    results = tmp_path / "results.jsonl"
    results.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert CliRunner().invoke(app, ["report", "--out", str(tmp_path)]).exit_code == 0
    assert (tmp_path / "REPORT.md").read_text() == write_report(ROWS, files)
    assert {f.name: f.read_bytes() for f in (tmp_path / "charts").glob("*")} == files
    results.write_text(json.dumps(OTHER) + "\n")
    assert CliRunner().invoke(app, ["report", "--out", str(tmp_path)]).exit_code == 0
    assert not list((tmp_path / "charts").glob("*")) and "charts/" not in (tmp_path / "REPORT.md").read_text()


def test_errors_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = CliRunner().invoke(app, ["report", "--out", str(tmp_path)])
    assert missing.exit_code == 2 and missing.stderr.count("\n") == 1 and "results.jsonl" in missing.stderr
    (tmp_path / "results.jsonl").write_text(json.dumps(ROWS[1]) + "\n")
    real = builtins.__import__

    def without(name: str, *rest, **fields):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **fields)

    monkeypatch.setattr(builtins, "__import__", without)
    bare = CliRunner().invoke(app, ["report", "--out", str(tmp_path)])
    assert bare.exit_code == 2 and "expected matplotlib for the charts" in bare.stderr
    assert not (tmp_path / "REPORT.md").exists()
