"""Damaged drafts and launches by the check that names them, and what serving each costs on the CPU engine."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from cases import EXAMPLE, IDS, damage, read_weights

from draftwire.acceptance import Acceptance
from draftwire.engine import small_engine
from draftwire.pair import example_pair
from draftwire.server import Server, ServerError

STOCK = {"DRAFTWIRE": "off"}
PROMPTS, TOKENS = 12, 48
COUNTS = ("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4")
WIRED = [0, 3, 6]
NAN = b"\xc0\x7f"  # in bfloat16
# YaRN that leaves every frequency as it is, all turning faster than beta_fast: only the magnitude is another.
MAGNIFIED = {
    "rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096, "beta_fast": 1e-3,
    "beta_slow": 5e-4, "attention_factor": 1.0,
}  # fmt: skip
COSTS_ABOUT = (
    f"Costs were seen on stock SGLang 0.5.23 on a CPU, with the pair in examples/tiny-deepseek-v3 in float32, greedy,\n"
    f"{PROMPTS} prompts of 128 tokens and {TOKENS} new ones, 3 steps, topk 1 (`test/test_doctor_costs.py`)."
)


class Fault(NamedTuple):
    """`check` names it. `what`: for the catalogue. `make(folder)`: the damaged draft. Served by stock SGLang 0.5.23."""

    check: str
    what: str
    make: Callable[[Path], Path]
    flags: tuple[str, ...] = COUNTS
    algorithm: str = "EAGLE3"
    env: dict[str, str] = STOCK


def wired(folder: Path, ids: Any = WIRED, **changes: Any) -> Path:
    """The example's draft as stock SGLang serves it right: ids that it reads as boundaries 0, 3 and 6."""
    return damage(folder, "as trained" if "eagle_config" in changes else ids, **changes)


def permuted(folder: Path) -> Path:
    """As if trained on cat([6, 3, 0]): the same network, the blocks of fc.weight and the ids in that order."""
    weights = read_weights()
    dtype, (rows, columns), data = weights["fc.weight"]
    block, row = columns // 3 * 2, columns * 2
    parts = [[data[r * row + b * block : r * row + (b + 1) * block] for b in range(3)] for r in range(rows)]
    weights["fc.weight"] = (dtype, (rows, columns), b"".join(p[2] + p[1] + p[0] for p in parts))
    return wired(folder, [6, 3, 0], tensors=weights)


def renamed(folder: Path) -> Path:
    weights = {name.replace("mlp.up_proj", "mlp.up"): tensor for name, tensor in read_weights().items()}
    return wired(folder, tensors=weights)


def headless(folder: Path) -> Path:
    return wired(folder, tensors={n: t for n, t in read_weights().items() if n != "lm_head.weight"})


def direct_ids(folder: Path) -> Path:
    weights = read_weights()
    offsets = struct.unpack("<640q", weights["d2t"][2])
    ids = struct.pack("<640q", *(i + offset for i, offset in enumerate(offsets)))
    return wired(folder, tensors=weights | {"d2t": ("I64", (640,), ids)})


def random_rows(folder: Path) -> Path:
    generator = random.Random(0)
    rows = struct.pack(f"<{1024 * 192}f", *(generator.gauss(0, 1) for _ in range(1024 * 192)))
    return wired(folder, tensors=read_weights() | {"embed_tokens.weight": ("F32", (1024, 192), rows)})


def diverged(folder: Path) -> Path:
    """One NaN in one norm, as after a step whose loss was infinite."""
    weights = read_weights()
    dtype, shape, data = weights["midlayer.hidden_norm.weight"]
    return wired(folder, tensors=weights | {"midlayer.hidden_norm.weight": (dtype, shape, NAN + data[len(NAN) :])})


def top_level(folder: Path) -> Path:
    return damage(folder, None, **{IDS: WIRED, "speculators_model_type": "eagle3"})


def mistaken(folder: Path) -> Path:
    """The founding case in small: trained on [embedding, 3, 6], served [3, 6, 9]."""
    return damage(folder, eagle_config={IDS: [3, 6, 9], "aux_boundaries": WIRED})


def changed(ids: Any = WIRED, **keys: Any) -> Callable[[Path], Path]:
    return lambda folder: wired(folder, ids, **keys)


FAULTS = (
    Fault("algorithm_is_eagle3", "EAGLE in place of EAGLE3", changed(), algorithm="EAGLE"),
    Fault("draft_class_served", "a class name that SGLang does not know", changed(architectures=["Eagle3Llama"])),
    Fault("ids_are_read", "the ids at the top of the config", top_level),
    Fault("ids_ascending", "trained on [6, 3, 0], ids written in that order", permuted),
    Fault("ids_mean_one_thing", "trained on boundaries 0, 3, 6, served 3, 6, 9", mistaken),
    Fault("boundaries_reachable", "-1 without draftwire", changed([-1, 2, 5])),
    Fault("fc_width", "two ids for an fc of three", changed([0, 3])),
    Fault("one_pipeline_stage", "--pp-size 2", changed(), (*COUNTS, "--pp-size", "2")),
    Fault("draft_fits_target", "target_hidden_size of another target", changed(target_hidden_size=256)),
    Fault("norms_match_flags", "fc_norm in the config, no such tensors", changed(fc_norm=True)),
    Fault("norms_served", "norm_before_residual run by the overlay on a draft that was trained without",
          changed(norm_before_residual=True), env={}),
    Fault("tensors_known", "mlp.up_proj under another name", renamed),
    Fault("tensors_complete", "no lm_head", headless),
    Fault("shapes_match_config", "num_key_value_heads 4 of 8", changed(num_key_value_heads=4)),
    Fault("weights_are_numbers", "one NaN in hidden_norm.weight", diverged),
    Fault("head_not_tied", "tied embeddings, 640 of 1,024 tokens", changed(tie_word_embeddings=True)),
    Fault("vocabulary_map_fits", "d2t with target ids for offsets", direct_ids),
    Fault("embedding_is_targets", "random rows in the draft's embedding", random_rows),
    Fault("rope_is_read", "rope_theta 10,000 as trained, rope_parameters.rope_theta 1,000,000",
          changed(rope_parameters={"rope_type": "default", "rope_theta": 1e6})),
    Fault("rope_matches_target", "a base of 1,000,000 for 10,000", changed(rope_theta=1e6)),
    Fault("rope_magnitude_kept", "attention_factor 1 beside YaRN of 64: cosines multiplied by 1.416",
          changed(rope_scaling=MAGNIFIED)),
    Fault("positions_reach", "max_position_embeddings 256 of 4,096", changed(max_position_embeddings=256)),
    Fault("window_passed", "a window of 16 that was not trained", changed(),
          (*COUNTS, "--speculative-draft-window-size", "16")),
    Fault("flags_kept", "4 steps and 24 draft tokens, of which 5 are verified", changed(),
          ("--speculative-num-steps", "4", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "24")),
    Fault("tree_fits_backend", "topk 4 over pages of 16 on intel_amx", changed(),
          ("--speculative-num-steps", "3", "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "8",
           "--page-size", "16", "--attention-backend", "intel_amx")),
    Fault("plugin_allowed", "SGLANG_PLUGINS without draftwire, a draft with -1", changed([-1, 2, 5]),
          env={"SGLANG_PLUGINS": "other"}),
    Fault("acceptance_not_simulated", "SGLANG_SIMULATE_ACC_LEN=4", changed(),
          env={**STOCK, "SGLANG_SIMULATE_ACC_LEN": "4"}),
)  # fmt: skip
HEALTHY = Fault("", "wired as trained", changed(eagle_config={IDS: WIRED, "aux_boundaries": WIRED}))


def launch_flags(fault: Fault, draft: Path) -> list[str]:
    return ["--model-path", str(EXAMPLE / "target"), "--dtype", "float32", "--speculative-algorithm", fault.algorithm,
            "--speculative-draft-model-path", str(draft), "--max-running-requests", "4", *fault.flags]  # fmt: skip


def serve(fault: Fault, draft: Path, log: Path) -> dict[str, Any]:
    """{"acceptance": mean length} of a server that answered, else {"crash": its last error}."""
    engine = small_engine("cpu")
    flags = [*launch_flags(fault, draft), *engine.flags]
    # The plugin list decides here too: the CPU engine's own plugin must stay in it.
    env = {**engine.env, **fault.env}
    if "SGLANG_PLUGINS" in env:
        env["SGLANG_PLUGINS"] += ",draftwire_cpu"
    with Server(flags, log, env=env) as server:
        try:
            server.wait_ready(300)
            prompts = example_pair().prompts[:PROMPTS]
            answers = [server.generate(prompt, TOKENS) for prompt in prompts]
        except (ServerError, OSError):
            return {"crash": last_error(log)}
    return {"acceptance": round(Acceptance.of(answers).length, 2)}


def last_error(log: Path) -> str:
    """The line of the log that names what ended the server, without paths."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    errors = [line for line in lines if re.match(r"([\w.]+(Error|Exception)|AssertionError)\b", line)]
    line = errors[0] if errors else lines[-1] if lines else "no output"
    return re.sub(r"/\S+/", "", line)[:160]
