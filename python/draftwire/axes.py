"""The axes around a choice of states, and the values to be tried on each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from draftwire.settings import Scaling, Settings

if TYPE_CHECKING:
    from draftwire.replay import Replay

THETAS = (10000.0, 50000.0, 500000.0, 1000000.0)
WINDOW = 2048
NAMES = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output", "qk_norm", "rope_theta", "rope_scaling",
         "yarn_magnitude", "window", "d2t")  # fmt: skip


def alternatives(now: Settings, replay: Replay, target_rope: Scaling | None) -> Iterator[Settings]:
    """Settings that differ from `now` on one axis. A norm that the draft lacks is tried with a weight of ones."""
    mla = "kv_lora_rank" in replay.geometry
    if not mla:
        yield now._replace(norm_before_residual=not now.norm_before_residual)
    yield now._replace(norm_before_fc=not now.norm_before_fc, fc_norm=False)
    yield now._replace(fc_norm=not now.fc_norm, norm_before_fc=False)
    yield now._replace(norm_output=not now.norm_output)
    if "layers.0.self_attn.q_norm.weight" in replay.tensors:
        yield now._replace(qk_norm=not now.qk_norm)
    for rope in dict.fromkeys(_ropes(now.rope, target_rope)):
        if rope != now.rope:
            yield now._replace(rope=rope)
    if not mla:
        for window in (None, WINDOW):
            windows = (window,) * len(now.window)
            if windows != now.window:
                yield now._replace(window=windows)
    if replay.reduced and replay.d2t is not None:
        yield now._replace(d2t="ids" if now.d2t == "offsets" else "offsets")


def _ropes(now: Scaling, of_target: Scaling | None) -> Iterator[Scaling]:
    for theta in (*THETAS, *([of_target.theta] if of_target else [])):
        yield now._replace(theta=theta)
    if now.kind == "yarn":
        factor = float(dict(now.block)["factor"])
        whole = 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
        for magnitude in (1.0, whole):
            yield now._replace(magnitude=magnitude)
    yield Scaling("default", now.theta, (), 1.0)
    if of_target is not None:
        yield of_target._replace(theta=now.theta)


def differences(one: Settings, other: Settings) -> list[str]:
    """The axes on which two settings differ, of NAMES."""
    found = [name for name in NAMES[:5] if getattr(one, name) != getattr(other, name)]
    found += ["rope_theta"] * (not math.isclose(one.rope.theta, other.rope.theta))
    found += ["rope_scaling"] * ((one.rope.kind, _needed(one.rope)) != (other.rope.kind, _needed(other.rope)))
    if "rope_scaling" not in found and not math.isclose(one.rope.magnitude, other.rope.magnitude, rel_tol=1e-6):
        found.append("yarn_magnitude")
    return found + ["window"] * (one.window != other.window) + ["d2t"] * (one.d2t != other.d2t)


def moved(settings: Settings, axis: str, to: Settings) -> Settings:
    """`settings` with one axis as `to` has it."""
    if axis == "rope_theta":
        return settings._replace(rope=settings.rope._replace(theta=to.rope.theta))
    if axis == "rope_scaling":
        return settings._replace(rope=to.rope._replace(theta=settings.rope.theta))
    if axis == "yarn_magnitude":
        return settings._replace(rope=settings.rope._replace(magnitude=to.rope.magnitude))
    return settings._replace(**{axis: getattr(to, axis)})


def shown(settings: Settings, axis: str) -> str:
    """An axis' value for people."""
    rope = settings.rope
    if axis == "rope_theta":
        return f"{rope.theta:g}"
    if axis == "rope_scaling":
        return ", ".join([rope.kind, *(f"{k} {v}" for k, v in rope.block if k == "factor")])
    if axis == "yarn_magnitude":
        return f"{rope.magnitude:.4g}"
    if axis == "window":
        return "/".join(str(w or "none") for w in settings.window)
    value = getattr(settings, axis)
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _needed(rope: Scaling) -> tuple:
    return rope.block if rope.kind != "default" else ()
