"""A tripled latent is the same target, and one that SGLang's Triton decode kernel takes."""

import os
import subprocess
import sys
from pathlib import Path

import torch
from states import load_sample
from transformers import DeepseekV3ForCausalLM

from draftwire.latent import triple_latent
from draftwire.pair import Pair

DECODE = """
import sys
import torch
from sglang.kernels.ops.attention.decode_attention import _decode_grouped_att_m_fwd

latent, rope, tokens, heads = int(sys.argv[1]), 16, 24, 8
torch.manual_seed(0)
k = torch.randn(tokens, 1, latent + rope)
v, q = k[..., :latent], torch.randn(1, heads, latent + rope)
found, lse = torch.zeros(1, heads, 1, latent), torch.zeros(1, heads, 1)
indptr, indices = torch.tensor([0, tokens], dtype=torch.int32), torch.arange(tokens)
splits = torch.ones(1, dtype=torch.int32)
_decode_grouped_att_m_fwd(q, k, v, found, lse, indptr, indices, splits, 1, 0.1, 0.0, has_mla=True)
scores = (q[0] @ k[:, 0].T * 0.1).softmax(-1)
print("difference", (found[0, :, 0] - scores @ v[:, 0]).abs().max().item())
"""


def decode(latent: int) -> str:
    """The last line of upstream's kernel run by Triton's interpreter, for one query of 8 heads."""
    env = {**os.environ, "TRITON_INTERPRET": "1", "SGLANG_USE_CPU_ENGINE": "1", "DRAFTWIRE": "off"}
    ran = subprocess.run([sys.executable, "-c", DECODE, str(latent)], env=env, capture_output=True, text=True)
    return (ran.stdout or ran.stderr).strip().splitlines()[-1]


def test_the_function_is_the_same(pair: Pair, tmp_path: Path) -> None:
    wide = triple_latent(pair.target, tmp_path / "wide")
    ids = load_sample(pair.directory, 0)["input_ids"][None]
    logits = []
    for path in (pair.target, wide):
        with torch.no_grad():
            logits.append(DeepseekV3ForCausalLM.from_pretrained(path, dtype=torch.float32).eval()(ids).logits)
    assert (logits[0] - logits[1]).norm() / logits[0].norm() < 1e-5


def test_upstreams_kernel_takes_the_tripled_latent_only(pair: Pair) -> None:
    assert "incompatible dimensions" in decode(64)
    line = decode(192)
    assert line.startswith("difference ") and float(line.split()[1]) < 1e-5, line
