"""Time and memory of a draft's replay against its matrix products alone, at Kimi-K2.5's width with random weights.

python benchmarks/doctor_speed.py [--hidden 7168] [--inner 18432] [--tokens 512] [--out benchmarks/results.jsonl]

Prints one JSON object and appends it to `--out`. The parts run in processes of their own, and
processor time is compared: run it with OMP_NUM_THREADS=1 on a machine that is not idle.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

WIRINGS, STEPS, STATES = 6, 3, 3
VOCABULARY, REDUCED = 163840, 32000


class Clock:
    """Wall and processor seconds from its making on; the latter tell on a machine that others use too."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        return {"seconds": time.perf_counter() - self.wall, "cpu_seconds": time.process_time() - self.cpu}


def peak_memory() -> int:
    """Bytes resident at most in this process, by the kernel's count (getrusage's begins with the parent's)."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def make(folder: Path, hidden: int, inner: int, heads: int) -> None:
    """A Llama-type bfloat16 draft with the geometry that a trainer gives it for this target."""
    import torch
    from safetensors.torch import save_file

    pool = torch.randn(2**24 + 3).bfloat16() * 0.01

    def weight(*shape: int) -> torch.Tensor:
        count = torch.Size(shape).numel()
        return pool.repeat(count // len(pool) + 1)[:count].view(shape).clone()

    width = heads * 128
    shapes = {f"self_attn.{n}_proj": (width, 2 * hidden) for n in "qkv"} | {"self_attn.o_proj": (hidden, width)}
    shapes |= {"mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner)}
    tensors = {f"layers.0.{name}.weight": weight(*shape) for name, shape in shapes.items()}
    for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        tensors[f"layers.0.{name}.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    tensors |= {"norm.weight": torch.ones(hidden, dtype=torch.bfloat16), "fc.weight": weight(hidden, STATES * hidden)}
    tensors |= {"lm_head.weight": weight(REDUCED, hidden), "embed_tokens.weight": weight(VOCABULARY, hidden)}
    tensors["d2t"] = torch.arange(REDUCED) * 4
    save_file(tensors, folder / "model.safetensors")
    config = {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": hidden,
        "intermediate_size": inner, "num_hidden_layers": 1, "vocab_size": VOCABULARY, "draft_vocab_size": REDUCED,
        "num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": 128, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 262144, "rope_theta": 50000.0, "torch_dtype": "bfloat16", "hidden_act": "silu",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))


def replay(folder: Path, tokens: int) -> dict:
    import torch

    from draftwire.draft import read_draft
    from draftwire.replay import Replay, ordered_choices
    from draftwire.sample import Sample
    from draftwire.settings import read_settings

    draft = Replay(read_draft(folder))
    settings, choices = read_settings(draft.draft), ordered_choices(STATES, STATES)[:WIRINGS]

    def sample(length: int) -> Sample:
        ids = torch.randint(0, VOCABULARY, (length,), generator=torch.Generator().manual_seed(0))
        states = tuple(torch.randn(length, draft.width).bfloat16() for _ in range(STATES))
        return Sample(folder, ids, torch.ones(length, dtype=torch.bool), states, None, False)

    draft.draft_ids(sample(8), choices[:1], settings, 2)  # the file's pages come in
    whole = sample(tokens)
    clock = Clock()
    drafted = draft.draft_ids(whole, choices, settings, STEPS)
    times = clock.read()
    assert drafted.shape == (WIRINGS, STEPS, tokens - 1)
    read = sum(s.size for n, s in draft.draft.tensors.items() if n != "embed_tokens.weight")
    return {**times, "peak": peak_memory(), "weights": read}


def products(folder: Path, tokens: int) -> dict:
    """The products of the replay: fc in pieces, the layer's seven and the head, for as many rows at a time."""
    import torch
    from torch.nn.functional import linear

    from draftwire import replay as module
    from draftwire.draft import read_draft

    draft = module.Replay(read_draft(folder))
    rows, layer = tokens - 1, [t.to(draft.dtype) for n, t in draft.tensors.items() if "_proj" in n]
    together = draft.together(rows)

    def run(rows: int, wirings: int, steps: int) -> None:
        given = {w: torch.randn(together * rows, w).to(draft.dtype) for w in {t.shape[1] for t in [*layer, draft.head]}}
        for _ in range(STATES):
            for block in draft.blocks:
                linear(given[draft.width][:rows], block)
        for start in range(0, wirings, together):
            count = min(together, wirings - start) * rows
            for _ in range(steps):
                for weight in layer:
                    linear(given[weight.shape[1]][:count], weight)
                for part in given[draft.head.shape[1]][:count].split(module.HEAD_ROWS):
                    linear(part, draft.head)

    with torch.inference_mode():
        run(8, 1, 1)
        clock = Clock()
        run(rows, WIRINGS, STEPS)
    return clock.read()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("hidden", 7168), ("inner", 18432), ("heads", 64), ("tokens", 512)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--part", nargs=2)
    given = parser.parse_args()
    if given.part:
        part = {"replay": replay, "products": products}[given.part[0]]
        print(json.dumps(part(Path(given.part[1]), given.tokens)))
        return
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), given.hidden, given.inner, given.heads)
        command = [sys.executable, __file__, "--tokens", str(given.tokens), "--part"]
        measured, alone = (
            json.loads(subprocess.run([*command, part, folder], check=True, capture_output=True, text=True).stdout)
            for part in ("replay", "products")
        )
    row = {
        "benchmark": "doctor_speed", "command": "python benchmarks/doctor_speed.py " + " ".join(sys.argv[1:]),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "commit": subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {os.environ.get('OMP_NUM_THREADS', 'all')} threads",
        "hidden": given.hidden, "tokens": given.tokens, "wirings": WIRINGS, "steps": STEPS, "dtype": "bfloat16",
        "seconds": round(measured["seconds"], 2), "cpu_seconds": round(measured["cpu_seconds"], 2),
        "products_seconds": round(alone["seconds"], 2), "products_cpu_seconds": round(alone["cpu_seconds"], 2),
        "share_of_products_speed": round(alone["cpu_seconds"] / measured["cpu_seconds"], 3),
        "weights_read_gb": round(measured["weights"] / 1e9, 3), "peak_gb": round(measured["peak"] / 1e9, 3),
        "peak_over_weights_gb": round((measured["peak"] - measured["weights"]) / 1e9, 3),
    }  # fmt: skip
    print(json.dumps(row))
    if given.out:
        with given.out.open("a", encoding="utf-8") as rows:
            rows.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
