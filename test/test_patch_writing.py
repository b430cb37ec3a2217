"""A tree is changed whole or not at all: errors, kills, two runs at once, links, owners, another draftwire."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patch_trees import DEEPSEEK, RELEASE, make_tree, refused, run, snapshot
from patched import LOCK, git, tree

from draftwire.patching import apply, codemod, lock, record, writing
from draftwire.patching.diff import Patch, render
from draftwire.patching.lock import Locked
from draftwire.patching.plan import Plan, plan
from draftwire.patching.tree import RECORD, compare

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, or mounts")
SERVER_ARGS = f"sglang/{codemod.LAUNCH}"
DIRECTIONS = pytest.mark.parametrize("flags", [(), ("--revert",)], ids=["apply", "revert"])


@pytest.fixture
def place(tmp_path):
    (tmp_path / "tree").mkdir()
    return make_tree(tmp_path / "tree")


@pytest.fixture
def both(tmp_path):
    """(upstream's, patched) files of a tree by name."""
    (tmp_path / "whole").mkdir()
    folder = make_tree(tmp_path / "whole")
    before = snapshot(folder)
    run(folder)
    return before, snapshot(folder)


def start(place: Path, flags: tuple) -> None:
    if flags:
        assert run(place)[0] == 0


def steps(place: Path, flags: tuple) -> int:
    return len((apply.reverted if flags else apply.applied)(plan(place)))


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EROFS, errno.ENOSPC])
@DIRECTIONS
def test_an_error_at_any_file_takes_every_file_back(place, monkeypatch, flags, code):
    start(place, flags)
    replace = writing._replace
    for stop in range(steps(place, flags)):
        done = []

        def failing(path, data, stop=stop, done=done):
            if len(done) == stop:
                raise OSError(code, os.strerror(code), str(path))
            done.append(replace(path, data))

        monkeypatch.setattr(writing, "_replace", failing)
        line = refused(place, *flags)
        assert os.strerror(code) in line and "nothing was changed" in line
        monkeypatch.undo()
    assert run(place, *flags)[0] == 0


@DIRECTIONS
def test_an_error_that_cannot_be_taken_back_says_so_and_the_same_command_ends_it(place, both, monkeypatch, flags):
    start(place, flags)
    replace = os.replace
    calls = []

    def failing(new, path):
        calls.append(path)
        if len(calls) > 2:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        replace(new, path)

    monkeypatch.setattr(writing.os, "replace", failing)
    status, line = run(place, *flags)
    assert status == 2 and line.count("\n") == 1
    assert "run the same command again" in line
    assert not starts(place)
    monkeypatch.undo()
    assert run(place, *flags)[0] == 0
    assert snapshot(place) == both[0 if flags else 1]


@ROOT_ONLY
@pytest.mark.skipif(shutil.which("mount") is None, reason="no mount")
def test_a_file_that_is_mounted_leaves_the_tree_whole(place):
    file = place / "sglang" / codemod.LAUNCH
    if subprocess.run(["mount", "--bind", str(file), str(file)], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        assert "busy" in refused(place)
    finally:
        subprocess.run(["umount", str(file)], check=True)


def killed(place: Path, flags: tuple, name: str, stop: int) -> bool:
    """Run in a process that is gone at the call `stop` of `writing.<name>`; False where it got to its end."""
    child = os.fork()
    if not child:
        call, count = getattr(writing, name), iter(range(1000))
        setattr(writing, name, lambda *a: os._exit(9) if next(count) == stop else call(*a))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(run(place, *flags)[0])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def starts(place: Path) -> bool:
    """Whether the launching module of the tree finds what it imports."""
    lines = (place / SERVER_ARGS).read_text().splitlines()
    code = "\n".join(line for line in lines if line.startswith("from sglang.srt.speculative.draft_wiring import"))
    env = {**os.environ, "PYTHONPATH": str(place)}
    command = [sys.executable, "-S", "-c", code]
    return subprocess.run(command, env=env, cwd=place, capture_output=True).returncode == 0


@DIRECTIONS
def test_a_run_killed_at_any_file_does_not_start_until_either_command_ends_it(tmp_path, both, flags):
    old, new = reversed(both) if flags else both
    stop, is_at_work = 0, True
    while is_at_work:
        for number, then in enumerate(((), ("--revert",))):
            folder = tmp_path / f"{stop}-{number}"
            folder.mkdir()
            make_tree(folder)
            start(folder, flags)
            is_at_work = killed(folder, flags, "_replace", stop)
            names = {name: data for name, data in snapshot(folder).items() if ".draftwire-" not in name}
            assert all(data in (old.get(name), new.get(name)) for name, data in names.items())
            sources = {n: d for n, d in names.items() if n.endswith(".py")}
            whole = [{n: d for n, d in files.items() if n.endswith(".py")} for files in both]
            assert sources in whole or not starts(folder)
            assert run(folder, "--check")[0] == int(sources != whole[1])
            assert run(folder, *then)[0] == 0
            assert snapshot(folder) == both[0 if then else 1]
            assert run(folder, *then)[1].count("already") == 1
        stop += 1
    assert stop == len([n for n in both[1] if both[1][n] != both[0].get(n)]) + 1


@DIRECTIONS
@pytest.mark.parametrize("stop", [0, 1, 4, 7])
def test_a_run_killed_before_its_first_file_leaves_the_tree_as_it_was(place, both, flags, stop):
    start(place, flags)
    before = snapshot(place)
    assert killed(place, flags, "_own", stop)
    left = snapshot(place)
    assert {name: left[name] for name in before} == before
    assert set(left) > set(before), "something is left over"
    again = () if flags else ("--revert",)
    assert run(place, *again)[0] == 0
    assert snapshot(place) == before == both[1 if flags else 0]


def test_killed_runs_are_completed(tmp_path, both):
    """Killed for real, at moments spread over the run."""
    for number, delay in enumerate((0.3, 0.4, 0.5, 0.6, 0.7)):
        (tmp_path / str(number)).mkdir()
        folder = make_tree(tmp_path / str(number))
        process = subprocess.Popen([sys.executable, "-m", "draftwire", "patch", str(folder)], stdout=subprocess.PIPE)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert run(folder)[0] == 0
        assert snapshot(folder) == both[1]


@DIRECTIONS
def test_a_second_run_at_once_is_refused(place, flags):
    start(place, flags)
    with writing.alone(place / "sglang"):
        assert "another at work" in refused(place, *flags)
        assert run(place, "--check")[0] == int(not flags)
    assert run(place, *flags)[0] == 0


def test_runs_at_once_leave_a_whole_tree(place, both):
    command = [sys.executable, "-m", "draftwire", "patch", str(place)]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    ended = [(*process.communicate(), process.returncode) for process in runs]
    assert {status for _, _, status in ended} <= {0, 2}
    assert all(err.count("\n") == 1 and "another at work" in err for _, err, status in ended if status)
    assert any(status == 0 for _, _, status in ended)
    assert snapshot(place) == both[1]


def test_an_interrupted_run_is_taken_back(place, monkeypatch):
    before = snapshot(place)
    replace, done = writing._replace, []

    def interrupted(path, data):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(replace(path, data))

    monkeypatch.setattr(writing, "_replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        apply.carry_out(plan(place), apply.applied(plan(place)))
    assert snapshot(place) == before


@pytest.mark.skipif(shutil.which("mount") is None or os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_leaves_the_tree_whole(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    size = sum((tree(RELEASE) / f).stat().st_size for f, (before, _) in LOCK[RELEASE].hashes.items() if before != "-")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size + 150_000}", "draftwire", str(folder)])
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        make_tree(folder)
        assert "No space left" in refused(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def as_nobody(folder: Path) -> str:
    """What the command, imported by now, says to a user who owns nothing here; nothing has changed then."""
    folder.chmod(folder.stat().st_mode | 0o555)
    before = snapshot(folder)
    (out, into), child = os.pipe(), os.fork()
    if not child:
        try:
            os.chdir(folder)  # what lies above may be closed to that user
            os.setgid(65534)
            os.setuid(65534)
            status, line = run(".")
            os.write(into, line.encode())
            os._exit(status)
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    line = os.read(out, 10_000).decode()
    assert line.startswith("draftwire: expected ") and line.count("\n") == 1
    assert snapshot(folder) == before
    return line


@ROOT_ONLY
def test_a_read_only_tree_is_refused(place, both):
    assert "expected a tree that can be written; found Permission denied" in as_nobody(place)


@ROOT_ONLY
def test_a_file_of_another_owner_is_refused(place, both):
    for path in [place, *place.rglob("*")]:
        path.chmod(0o777)
    assert "expected a file whose owner can be kept; found one of user 0" in as_nobody(place)


@ROOT_ONLY
def test_owner_and_mode_are_kept_and_new_files_get_them(place):
    for path in place.rglob("*"):
        os.chown(path, 1234, 2345)
    (place / "sglang" / DEEPSEEK).chmod(0o755)
    (place / SERVER_ARGS).chmod(0o640)
    owned = {p: (p.stat().st_uid, p.stat().st_gid, p.stat().st_mode) for p in place.rglob("*")}
    run(place)
    for path in place.rglob("*"):
        found = path.stat()
        assert (found.st_uid, found.st_gid, found.st_mode) == owned.get(path, (1234, 2345, 0o100640)), path
    run(place, "--revert")
    assert {p: (p.stat().st_uid, p.stat().st_gid, p.stat().st_mode) for p in place.rglob("*")} == owned


def test_a_hard_links_other_name_keeps_its_bytes(place, tmp_path):
    os.link(place / "sglang" / DEEPSEEK, tmp_path / "cache")
    before = (tmp_path / "cache").read_bytes()
    run(place)
    assert (tmp_path / "cache").read_bytes() == before != (place / "sglang" / DEEPSEEK).read_bytes()


@pytest.mark.parametrize("file", [DEEPSEEK, codemod.LAUNCH])
def test_a_file_that_is_a_link_is_refused(place, tmp_path, file):
    path = place / "sglang" / file
    path.rename(tmp_path / "elsewhere.py")
    path.symlink_to(tmp_path / "elsewhere.py")
    line = refused(place)
    assert "found a link to" in line and Path(file).name in line
    assert path.is_symlink()


def test_a_tree_behind_a_link_is_patched(place, tmp_path, both):
    (tmp_path / "link").symlink_to(place)
    assert run(tmp_path / "link")[0] == 0
    assert snapshot(place) == both[1]


@pytest.mark.parametrize("data", [b"a,,\r\nb,,\r\n", b"a,,\nb,,\n", b"a,,\nb,,", b"a,,\r\nb,,", b"a,,\n", b"a,,", b""])
def test_pips_record_keeps_its_line_ends(data):
    names = {"sglang/x.py": b"1", "sglang/a.py": b"2"}
    listed = record.listed(names, data)
    assert record.listed(names, listed) == listed
    assert [line.split(b",")[0] for line in listed.splitlines()].count(b"sglang/x.py") == 1
    assert listed.count(b"\n") - data.count(b"\n") == 2
    assert listed.count(b"\r\n") in (0, listed.count(b"\n"))
    assert record.listed(dict.fromkeys(names), listed) == data


def of_another_draftwire(found: Plan) -> Plan:
    """The plan that a draftwire with another reader would carry out."""
    added = {**found.patch.added, codemod.READER: found.patch.added[codemod.READER] + "# another\n"}
    locked = found.state.locked
    hashes = {**locked.hashes, codemod.READER: (lock.NEW, lock.sha256(added[codemod.READER].encode()))}
    locked = Locked(locked.release, locked.patch, hashes)
    return found._replace(patch=Patch(found.patch.insertions, added), state=compare(found.tree, locked))


@pytest.mark.parametrize("modified", [False, True])
def test_another_draftwires_patch_is_told_apart_and_taken_off(place, modified, monkeypatch):
    if modified:
        (place / SERVER_ARGS).write_text("# ours\n" + (place / SERVER_ARGS).read_text())
    before = snapshot(place)
    other = of_another_draftwire(plan(place))
    apply.carry_out(other, apply.applied(other))
    status, said = run(place, "--check")
    assert status == 1 and "patched by another draftwire, run `draftwire patch TREE --revert`" in said
    line = refused(place)
    assert "--revert`" in line and RECORD in line
    assert killed(place, ("--revert",), "_replace", 4)
    assert "--revert`" in refused(place)
    assert run(place, "--revert")[0] == 0
    assert snapshot(place) == before
    assert run(place)[0] == 0
    assert run(place, "--check")[0] == 0


def test_another_draftwires_patch_put_on_by_git_says_how_to_take_it_off(tmp_path):
    folder = make_tree(tmp_path, layout="python/sglang")
    git("init", "-q", folder=folder)
    (folder / "it.patch").write_text(render(of_another_draftwire(plan(folder)).patch))
    assert git("apply", "it.patch", folder=folder).returncode == 0
    assert "git apply -R" in refused(folder)
    assert run(folder, "--check")[0] == 2
