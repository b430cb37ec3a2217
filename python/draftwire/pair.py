"""The small target and draft that come with the repository, and how to serve them."""

from __future__ import annotations

import json
from pathlib import Path

STEPS = ("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4")


class Pair:
    """Paths and prompts of a directory like `examples/tiny-deepseek-v3`.

    `prompts`: lists of 128 token ids. Raises FileNotFoundError where the directory is not there.
    """

    def __init__(self, directory: Path):
        if not (directory / "target" / "config.json").is_file():
            raise FileNotFoundError(f"expected target/config.json, found none in {directory}; run from a checkout")
        self.directory = directory
        self.target = directory / "target"
        self.draft = directory / "draft"
        self.prompts: list[list[int]] = json.loads((directory / "prompts.json").read_text())

    def plain_flags(self, dtype: str = "float32") -> list[str]:
        """Flags for the target alone."""
        return ["--model-path", str(self.target), "--dtype", dtype]

    def flags(self, draft: Path | None = None, dtype: str = "float32", steps: tuple[str, ...] = STEPS) -> list[str]:
        """Flags for the target with a draft, three steps and topk 1 unless said."""
        draft_flags = ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(draft or self.draft)]
        return [*self.plain_flags(dtype), *draft_flags, *steps]

    def rewire(self, out: Path, ids: object, **changes: object) -> Path:
        """A copy of the draft in `out` with other nested ids (None: none at all) and config keys; weights linked."""
        out.mkdir(parents=True)
        config = json.loads((self.draft / "config.json").read_text())
        config["eagle_config"] = {"use_aux_hidden_state": True}
        if ids is not None:
            config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = ids
        (out / "config.json").write_text(json.dumps(config | changes, indent=2))
        (out / "model.safetensors").symlink_to((self.draft / "model.safetensors").resolve())
        return out


def example_pair() -> Pair:
    """The pair of this checkout."""
    return Pair(Path(__file__).resolve().parents[2] / "examples" / "tiny-deepseek-v3")
