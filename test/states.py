"""Read captured states back from a server and compare them with a training sample's."""

from __future__ import annotations

from pathlib import Path

import torch

from draftwire.server import Server


def load_sample(pair_directory: Path, number: int) -> dict[str, torch.Tensor]:
    """One training sample: `input_ids` [T] int64, `hidden_states` [K+1, T, hidden] float32."""
    raw = torch.load(pair_directory / "samples" / f"data_{number}.pt", weights_only=True)
    return {"input_ids": raw["input_ids"], "hidden_states": torch.stack(raw["hidden_states"]).float()}


def served_states(server: Server, ids: torch.Tensor, count: int) -> torch.Tensor:
    """The states that the target captured for a prompt: [count, T, hidden] float32.

    The server must run with --enable-return-hidden-states.
    """
    answer = server.generate(ids.tolist(), 1, return_hidden_states=True)
    rows = torch.tensor(answer["meta_info"]["hidden_states"][0])[: len(ids)]
    return rows.view(len(rows), count, -1).transpose(0, 1)


def relative_errors(found: torch.Tensor, expected: torch.Tensor) -> list[float]:
    """|found - expected| / |expected|, one for each state."""
    return [float((f - e).norm() / e.norm()) for f, e in zip(found, expected, strict=True)]
