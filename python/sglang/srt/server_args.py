"""What configs, flags and headers can tell is refused in the launching process, before a worker starts.

Why: a wiring that is wrong shows after the weights are loaded, minutes later, or never.
Upstream: none; the draft's config is first read in the scheduler processes.
Drop when: SGLang refuses ids that it cannot capture before it starts a worker.
"""

from __future__ import annotations

from pathlib import Path

from draftwire.headers import DraftError, read_tensors
from draftwire.refusal import end_with_workers, refuse
from draftwire_overlay.srt.configs.model_config import CaptureList
from draftwire_overlay.srt.speculative.aux_boundaries import IDS


class ServerArgs:
    def check_server_args(original, self):
        """Upstream's checks; before them, the draft's wiring is resolved and compared with its fc."""
        if str(self.speculative_algorithm or "").upper() in ("EAGLE3", "EAGLE", "NEXTN"):
            _require_wirable(self)
        return original(self)


def _require_wirable(server_args) -> None:
    from sglang.srt.configs.model_config import ModelConfig

    from draftwire.seams import join_pending

    if not server_args.speculative_draft_model_path:
        return
    require_config(server_args.speculative_draft_model_path)
    end_with_workers()
    join_pending()
    draft = ModelConfig.from_server_args(
        server_args,
        model_path=server_args.speculative_draft_model_path,
        model_revision=server_args.speculative_draft_model_revision,
        is_draft_model=True,
    )
    ids = (vars(draft.hf_config).get("eagle_config") or {}).get(IDS)
    if isinstance(ids, CaptureList) and Path(draft.model_path).is_dir():
        require_fc(Path(draft.model_path), ids)


def require_config(path: str) -> None:
    """Refuse a draft path that cannot be a hub name (org/name) and holds no config.json."""
    local = path.startswith(("/", ".", "~")) or path.count("/") > 1
    if local and "://" not in path and not (Path(path).expanduser() / "config.json").is_file():
        refuse(f"expected a draft, found no config.json in {path}; correct --speculative-draft-model-path")


def require_fc(directory: Path, ids: CaptureList) -> None:
    """Refuse a draft directory whose fc.weight, by its header, does not take K x target hidden size.

    A quantised fc or a directory without safetensors is left to the worker's check of the built model.
    """
    if not any(directory.glob("*.safetensors")):
        return
    try:
        tensors = read_tensors(directory)
    except DraftError as error:
        refuse(error)
    fc = tensors.get("fc.weight") or tensors.get("model.fc.weight")
    if not any(name.removeprefix("model.").startswith("fc.") for name in tensors):
        refuse(f"expected fc.weight for {ids.wiring}, found none in {directory}; this is no EAGLE-3 draft")
    hidden = ids.hidden_size
    if fc is not None and fc.dtype in ("F64", "F32", "F16", "BF16") and fc.shape[-1:] != (len(ids) * hidden,):
        refuse(
            f"expected fc.weight [.., {len(ids)} x {hidden} = {len(ids) * hidden}], found {list(fc.shape)} in "
            f"{fc.file}; the draft was trained on another number of states than {ids.wiring}"
        )
