"""`managers/scheduler_components/weight_updater.py`: upstream's real update, with the runners that it reaches noted."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import engine_free
import pytest

PATH = "checkpoints/next"


@pytest.fixture
def updater(monkeypatch):
    """`updater(algorithm, draft=True, fails=False)`: upstream's manager and the list of runners it loaded into."""
    from sglang.srt.managers.scheduler_components.weight_updater import SchedulerWeightUpdaterManager as Manager
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    monkeypatch.setattr(Manager, "_observe_weight_load", lambda self, source: contextlib.nullcontext())
    monkeypatch.setattr(Manager, "record_weight_version_after_update", lambda self, version: None)
    monkeypatch.setattr(Manager, "flush_cache_after_weight_update", lambda self, request, *result: result)

    def build(algorithm: str, draft: bool = True, fails: bool = False):
        loaded: list[str] = []

        def worker(role: str):
            def load(path, *rest, **more):
                loaded.append(role)
                if fails:
                    raise RuntimeError(path)
                return True, "ok"

            runner = SimpleNamespace(
                weight_updater=SimpleNamespace(update_weights_from_disk=load),
                spec_algorithm=SpeculativeAlgorithm[algorithm],
            )
            return SimpleNamespace(weight_update_runners=lambda: [(role, runner)], model_runner=runner)

        manager = object.__new__(Manager)
        manager.tp_worker = worker("target")
        manager.draft_worker = worker("draft") if draft else None
        if draft:
            manager.draft_worker.target_worker = manager.tp_worker
        return manager, loaded

    with engine_free.joined("SchedulerWeightUpdaterManager"):
        yield build


def update(manager):
    request = SimpleNamespace(model_path=PATH, load_format=None, recapture_cuda_graph=False, weight_version=None)
    return manager.update_weights_from_disk(request)


def test_an_eagle3_draft_keeps_its_own_weights(updater, caplog):
    manager, loaded = updater("EAGLE3")
    draft = manager.draft_worker
    with caplog.at_level("INFO", "draftwire"):
        assert update(manager).success
    assert loaded == ["target"]
    assert manager.draft_worker is draft
    assert f"{PATH} went into the target" in caplog.text


@pytest.mark.parametrize(("algorithm", "roles"), [("EAGLE", ["target", "draft"]), ("NONE", ["target", "draft"])])
def test_a_draft_of_the_targets_own_checkpoint_follows_it(algorithm, roles, updater):
    manager, loaded = updater(algorithm)
    assert update(manager).success
    assert loaded == roles


def test_a_server_without_a_draft_is_updated(updater):
    manager, loaded = updater("EAGLE3", draft=False)
    assert update(manager).success
    assert loaded == ["target"]


def test_the_draft_is_back_after_a_failed_update(updater):
    manager, _ = updater("EAGLE3", fails=True)
    draft = manager.draft_worker
    with pytest.raises(RuntimeError, match=PATH):
        update(manager)
    assert manager.draft_worker is draft
