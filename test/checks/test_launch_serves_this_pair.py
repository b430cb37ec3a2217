import json
from pathlib import Path

import pytest
from cases import EXAMPLE, FLAGS, copy_example, look, only, write_target

from draftwire.doctor import collect, examine
from draftwire.finding import Finding
from draftwire.headers import DraftError

NAME = "launch_serves_this_pair"
DRAFT, TARGET = "--speculative-draft-model-path", "--model-path"
REVISION = "--speculative-draft-model-revision"


def test_healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draft, target = EXAMPLE / "draft", EXAMPLE / "target"
    only(look(NAME), "ok")
    only(look(NAME, draft, DRAFT, str(draft), TARGET, str(target)), "ok")
    only(look(NAME, draft, f"{DRAFT}={draft}/../draft/"), "ok")
    (tmp_path / "link").symlink_to(draft)
    only(look(NAME, tmp_path / "link", DRAFT, str(draft)), "ok")
    monkeypatch.chdir(EXAMPLE)
    only(look(NAME, draft, DRAFT, "draft", "--model", "./target"), "ok")
    only(look(NAME, draft, DRAFT, str(copy_example(tmp_path / "copy")), target=None), "warning", "another draft")
    only(look(NAME, launch=None), "skipped", "no launch flags")


def test_another_draft(tmp_path: Path) -> None:
    other = copy_example(tmp_path / "other")
    found = look(NAME, EXAMPLE / "draft", DRAFT, str(other))
    only(found, "warning", "another draft", f"--draft {EXAMPLE / 'draft'}", f"{DRAFT} {other} in the command line")


def test_another_target(tmp_path: Path) -> None:
    other = write_target(tmp_path / "other")
    ours = DRAFT, str(EXAMPLE / "draft")
    only(look(NAME, EXAMPLE / "draft", *ours, TARGET, str(other)), "warning", "another target", str(other), "--target")
    both = look(NAME, EXAMPLE / "draft", TARGET, str(other), DRAFT, str(copy_example(tmp_path / "draft")))
    assert [finding.level for finding in both] == ["warning", "warning"]
    # The target that was not named beside the flags is the one that they name.
    only(look(NAME, EXAMPLE / "draft", *ours, TARGET, str(other), target=None), "ok")


def test_a_warning_leaves_the_exit_status(tmp_path: Path) -> None:
    command = [*FLAGS, DRAFT, str(copy_example(tmp_path / "other"))]
    report = examine(collect(str(EXAMPLE / "draft"), str(EXAMPLE / "target"), None, command, "0.5.23", "overlay", {}))
    assert (report.status, report.count("warning")) == (0, 1)


def test_the_launch_alone_names_them() -> None:
    command = [*FLAGS, DRAFT, str(EXAMPLE / "draft"), TARGET, str(EXAMPLE / "target")]
    case = collect(None, None, None, command, "0.5.23", "overlay", {})
    only([finding for _, finding in examine(case, [NAME]).findings], "ok")


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The snapshot of some/draft in a hub cache."""
    repository = tmp_path / "hub" / "models--some--draft"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abcdef0123")
    (repository / "snapshots").mkdir()
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return copy_example(repository / "snapshots" / "abcdef0123")


def named(draft: str, served: str, *flags: str) -> list[Finding]:
    case = collect(draft, str(EXAMPLE / "target"), None, [*FLAGS, DRAFT, served, *flags], "0.5.23", "overlay", {})
    return [finding for _, finding in examine(case, [NAME]).findings]


def test_hub_names(cached: Path) -> None:
    only(named("some/draft", "some/draft"), "ok")
    only(named("some/draft", "Some/Draft"), "ok")
    only(named("some/draft", "some/other"), "warning", "--draft some/draft", f"{DRAFT} some/other")


def test_a_hub_name_and_a_directory(cached: Path) -> None:
    only(named(str(cached), "some/draft"), "ok")
    only(named("some/draft", str(cached)), "ok")
    only(named(str(EXAMPLE / "draft"), "some/draft"), "skipped", "some/draft")
    only(named("some/draft", str(EXAMPLE / "draft")), "skipped", "some/draft")
    only(named(str(EXAMPLE / "draft"), "some/other"), "skipped", "some/other")


def test_what_is_not_on_this_machine(tmp_path: Path) -> None:
    only(named(str(EXAMPLE / "draft"), str(tmp_path / "mounted")), "skipped", "cannot tell", "mounted")
    only(named(str(EXAMPLE / "draft"), "DRAFT"), "skipped", "DRAFT")
    only(named(str(EXAMPLE / "draft"), "~no-such-user/draft"), "skipped", "~no-such-user")


def test_a_file_of_flags(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    other = copy_example(tmp_path / "other")
    file.write_text(json.dumps({DRAFT[2:]: str(other), "speculative-algorithm": "EAGLE3"}))
    case = collect(str(EXAMPLE / "draft"), None, file, (), "0.5.23", "overlay", {})
    only([finding for _, finding in examine(case, [NAME]).findings], "warning", str(other), "in serve.yaml")


def test_a_launch_without_a_draft(tmp_path: Path) -> None:
    """For a target such as DeepSeek's, SGLang takes the target's own directory as the draft."""
    file = tmp_path / "serve.yaml"
    asked = {"speculative-algorithm": "EAGLE3"}

    def found(values: dict, *flags: str) -> list[Finding]:
        file.write_text(json.dumps(values))
        case = collect(str(EXAMPLE / "draft"), str(EXAMPLE / "target"), file, flags, "0.5.23", "overlay", {})
        return [finding for _, finding in examine(case, [NAME]).findings]

    whole = asked | {TARGET[2:]: str(EXAMPLE / "target")}
    only(found(whole), "error", "names no draft", f"no {DRAFT}", "in serve.yaml")
    only(found(asked), "warning", "names no draft")
    only(found(whole, DRAFT, str(EXAMPLE / "draft")), "ok")
    only(found(whole | {"speculative-algorithm": "EAGLE"}), "ok")
    only(look(NAME, EXAMPLE / "draft", TARGET, str(EXAMPLE / "target")), "warning", "in the command line")
    only(look(NAME, EXAMPLE / "draft", "--tp-size", "2"), "ok")


def test_a_revision(cached: Path) -> None:
    """What is served of a hub name is its main, or the branch, tag or commit that the flags say."""
    (cached.parent.parent / "refs" / "next").write_text("0123456789")
    other = copy_example(cached.parent / "0123456789")
    read = collect("some/draft", None, None, [*FLAGS, DRAFT, "some/draft", REVISION, "next"], "0.5.23", "overlay", {})
    assert read.draft.directory == other
    only([f for _, f in examine(read, [NAME]).findings], "ok")
    read = collect(None, None, None, [*FLAGS, DRAFT, "Some/Draft".lower(), REVISION, "next"], "0.5.23", "overlay", {})
    assert read.draft.directory == other
    only(named(str(cached), "some/draft", REVISION, "next"), "skipped")
    only(named(str(other), "some/draft", REVISION, "next"), "ok")
    # A revision of the draft that is served is none of another that is looked at.
    read = collect("some/draft", None, None, [*FLAGS, DRAFT, "some/other", REVISION, "next"], "0.5.23", "overlay", {})
    assert read.draft.directory == cached
    with pytest.raises(DraftError, match="hf download some/draft --revision v9"):
        collect("some/draft", None, None, [*FLAGS, REVISION, "v9"], "0.5.23", "overlay", {})


def test_a_revision_of_the_target(cached: Path) -> None:
    repository = cached.parent.parent.with_name("models--some--target")
    for revision in ("aaaaaa", "bbbbbb"):
        (repository / "snapshots").mkdir(parents=True, exist_ok=True)
        write_target(repository / "snapshots" / revision)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("aaaaaa")
    (repository / "refs" / "v2").write_text("bbbbbb")
    for flags, read in (((), "aaaaaa"), (("--revision", "v2"), "bbbbbb")):
        command = [*FLAGS, DRAFT, "some/draft", TARGET, "some/target", *flags]
        assert collect(None, None, None, command, "0.5.23", "overlay", {}).target.directory.name == read
