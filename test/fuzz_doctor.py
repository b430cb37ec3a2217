"""Feed the doctor damaged input for a while: `python fuzz_doctor.py SECONDS [SEED]` prints the seeds it trips over.

A seed makes one case, always the same; those that once failed are kept in test_doctor_fuzz.py.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from cases import FLAGS, read_config
from small_drafts import flat_config, flat_tensors, pack, speculators_config, tensors, write

from draftwire.doctor import collect, examine
from draftwire.rendering import render

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 0.5, 1e308, -1e308, float("nan"), float("inf"), 2**31, 2**64, -(2**70), "", "x",
    "yarn", "\x00\x1b", "1", [], [0], [[]], [None], [True], ["a"], [1, 0], [0, 3, 6], [-1, 2, 5], {}, {"a": 1},
    {"rope_type": "yarn", "factor": 2}, {"rope_type": 3}, {"eagle_aux_hidden_state_layer_ids": "x"},
    {"aux_boundaries": [0, 3, 6]}, {"requires": 5}, "eagle3", "qwen3", ["sliding_attention"],
    "Eagle3DeepseekV2ForCausalLM",
)  # fmt: skip
KEYS = (
    "eagle_config", "eagle_aux_hidden_state_layer_ids", "hidden_size", "vocab_size", "draft_vocab_size", "rope_scaling",
    "rope_parameters", "rope_theta", "layer_types", "sliding_window", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "intermediate_size", "architectures", "model_type", "tie_word_embeddings",
    "target_hidden_size", "num_aux_hidden_states", "fc_norm", "norm_before_fc", "norm_output", "kv_lora_rank",
    "speculators_model_type", "speculators_config", "speculators_version", "transformer_layer_config", "text_config",
    "quantization_config", "max_position_embeddings", "first_k_dense_replace", "norm_before_residual",
)  # fmt: skip
YAML = ("a: 1", "- b", "{", "[", "x: &a [*a]", "pp-size: 2", "tp-size: x", "page-size: [1, 2]", "? x", "\t",
        "!!binary x", "speculative-eagle-topk: 4", "context-length: -1", "tp-size: 0", "quantization: {a: b}",
        "attention-backend: 7",
        "2001-01-01: 1", "tp-size: .inf", "speculative-num-steps: 99999999999999999999", "model-path: [x]")  # fmt: skip


def change(table: dict[str, Any], choose: random.Random) -> None:
    """One key of a table, or of a table in it, becomes another value or goes."""
    inner = [value for value in table.values() if isinstance(value, dict)]
    if inner and choose.random() < 0.4:
        return change(choose.choice(inner), choose)
    key = choose.choice([*table, *KEYS])
    if choose.random() < 0.15:
        table.pop(key, None)
    else:
        table[key] = copy.deepcopy(choose.choice(ODD))


def flip(content: bytes, choose: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(choose.randint(1, 8)):
        kind, place = choose.randrange(4), choose.randrange(min(len(data), choose.choice((16, 600, 4000))) or 1)
        if kind == 0 and data:
            data[place] = choose.randrange(256)
        elif kind == 1:
            del data[place : place + choose.randint(1, 9)]
        elif kind == 2:
            data[place:place] = bytes(choose.randrange(256) for _ in range(choose.randint(1, 9)))
        else:
            data = data[: max(place, 1)]
    return bytes(data)


def try_seed(seed: int, folder: Path) -> str:
    """What came of it: a verdict or a refusal. Raises where the doctor does, or where a check throws."""
    choose = random.Random(seed)
    draft, target = folder / "draft", folder / "target"
    nested = choose.random() < 0.4
    config = speculators_config() if nested else flat_config() if choose.random() < 0.6 else read_config()
    weights = tensors() if nested else flat_tensors()
    facts = read_config("target") | {"hidden_size": 16, "vocab_size": 40}
    for table in (config, facts):
        for _ in range(choose.choice((0, 1, 1, 2, 5))):
            change(table, choose)
    write(draft, config, weights, shards=choose.choice((1, 1, 2)))
    target.mkdir()
    (target / "config.json").write_text(json.dumps(facts))
    if choose.random() < 0.5:
        (target / "model.safetensors").write_bytes(pack({"model.embed_tokens.weight": weights["embed_tokens.weight"]}))
    files = [file for file in (*draft.iterdir(), *target.iterdir()) if choose.random() < 0.15]
    for file in files:
        file.write_bytes(flip(file.read_bytes(), choose))
    command_line = [*FLAGS] if choose.random() < 0.5 else []
    for _ in range(choose.choice((0, 0, 1, 3))):
        command_line.insert(choose.randrange(len(command_line) + 1), choose.choice(
            ["--tp-size", "--pp-size=2", "x", "--", "--page-size", "-3", "--attention-backend=fa3", "--config", "\x00",
             "--context-length=0", "--enable-two-batch-overlap", "--speculative-eagle-topk",
             "--quantization=awq"]))  # fmt: skip
    serve = None
    if choose.random() < 0.4:
        serve = folder / "serve.yaml"
        serve.write_text("\n".join(choose.choices(YAML, k=choose.randint(0, 4))))
    release = choose.choice(("0.5.8", "0.5.11", "0.5.12", "0.5.13", "0.5.16", "0.5.23", "0.9", "x", None))
    delivery = choose.choice(("stock", "overlay", "patch", None))
    try:
        case = collect(str(draft), choose.choice((str(target), None)), serve, command_line, release, delivery, {})
    except ValueError as refusal:
        line = str(refusal)
        assert len(line.splitlines()) == 1 and "expected " in line and "found " in line, line
        return "refused"
    report = examine(case)
    broken = [f for _, f in report.findings if f.text == "The check itself failed."]
    assert not broken, broken
    json.dumps(report.as_json())
    text = render(report)
    assert text.splitlines()[-1] and all(c.isprintable() or c == "\n" for c in text)
    return report.verdict


def main(seconds: float, seed: int) -> None:
    end, tripped, seen = time.monotonic() + seconds, [], {}
    while time.monotonic() < end:
        folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        try:
            verdict = try_seed(seed, folder)
            seen[verdict] = seen.get(verdict, 0) + 1
        except Exception:
            tripped.append(seed)
            print(f"seed {seed}: {traceback.format_exc().splitlines()[-1][:300]}", flush=True)
        shutil.rmtree(folder)
        seed += 1
    print(f"{seed} seeds up to here, {seen}, tripped over {tripped}")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 0)
