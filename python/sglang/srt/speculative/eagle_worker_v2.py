"""At start, on every rank: the draft's fc takes what the target will capture.

Why: a draft whose `fc` takes another number of states than are captured fails at the first request, minutes
    after the launch, with a matrix shape as its only message; one of the same width does not fail at all.
Upstream: none; target and draft are built from the config separately and never compared.
Drop when: the EAGLE worker compares `fc`'s width with the captured states before it reports ready.
"""

from __future__ import annotations

from draftwire.refusal import refuse
from draftwire_overlay.srt.configs.model_config import CaptureList
from draftwire_overlay.srt.speculative.aux_boundaries import IDS


class EAGLEWorkerV2:
    def init_cuda_graphs(original, self):
        """Upstream's; before it, the wiring of target and draft is compared. Runs on graphless servers too."""
        require_wired(self.target_worker.model_runner, self.draft_worker)
        return original(self)


class EagleDraftWorker:
    def init_attention_backend(original, self):
        """Upstream's; numbers the backends of the decode steps, for a draft whose window grows with them."""
        original(self)
        for step, backend in enumerate(getattr(self.draft_attn_backend, "attn_backends", None) or (), start=1):
            backend.draft_step = step


def require_wired(target_runner, draft_worker) -> None:
    """Refuse a target that will not capture what the draft's config was resolved to, and an fc that cannot take it.

    target_runner: the target's ModelRunner. draft_worker: EagleDraftWorker, None on a rank without a draft.
    """
    if draft_worker is None or not target_runner.spec_algorithm.is_eagle3():
        return
    draft = draft_worker.draft_runner
    ids = (getattr(draft.model_config.hf_config, "eagle_config", None) or {}).get(IDS)
    if not isinstance(ids, CaptureList):
        return
    model = getattr(target_runner.model, "language_model", None) or target_runner.model
    wiring = ids.wiring
    captured = list(getattr(model.model, "layers_to_capture", []))
    if captured != list(wiring.boundaries) or getattr(model, "aux_wiring", None) is None:
        refuse(
            f"expected the target to capture boundaries {list(wiring.boundaries)}, found {captured} in "
            f"{type(model).__name__}; the overlay's hook on this model did not run, report this release"
        )
    width = _fan_in(draft.model)
    expected = len(ids) * ids.hidden_size
    if width != expected:
        refuse(
            f"expected fc.weight to take {len(ids)} x {ids.hidden_size} = {expected} values, "
            f"found {width} in {draft.model_config.model_path}; the draft was trained on another number of states "
            f"than {wiring}"
        )
    _widen_extend_buffers(target_runner.model_config.hf_config, len(wiring.boundaries))


def _fan_in(draft_model) -> int | None:
    inner = getattr(draft_model, "model", draft_model)
    fc = getattr(inner, "fc", None)
    return getattr(fc, "in_features", None) or getattr(fc, "input_size", None)


def _widen_extend_buffers(target_config, count: int) -> None:
    """SGLang 0.5.14 sizes the draft's extend buffers by the target's config, where K is not written."""
    from sglang.srt.speculative import eagle_info

    if hasattr(getattr(eagle_info, "EagleDraftExtendInput", None), "hidden_size_for"):
        target_config.num_aux_hidden_states = count
