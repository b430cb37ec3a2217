"""What a draft needs beyond a stock SGLang, as its config says it: the converter writes it, the overlay reads it.

`eagle_config.requires` lists it. Beside it the converter stores `hidden_norm` of the first layer in the shape [1, H]:
no stock release loads that, so a server without the overlay stops instead of serving another network.
"""

from __future__ import annotations

from typing import Any, NamedTuple

REQUIRES = "requires"
KNOWN = ("norm_before_residual", "norm_before_fc", "qk_norm", "sliding_window", "own_embedding", "boundary_1")
MARKED = "hidden_norm.weight"


class Features(NamedTuple):
    """The first five of KNOWN. `windows`: keys that a layer attends to, its own included; None is all of them."""

    requires: tuple[str, ...]
    norm_before_residual: bool
    norm_before_fc: bool
    qk_norm: bool
    own_embedding: bool
    windows: tuple[int | None, ...]


def read_features(config: Any) -> Features:
    """The features of a draft's config (an object with attributes, such as transformers'). Raises ValueError.

    `norm_before_residual`, `norm_before_fc`, `sliding_window` and `layer_types` are read where trainers write them.
    """
    nested = getattr(config, "eagle_config", None) or {}
    if not isinstance(nested, dict):
        raise ValueError(f"expected eagle_config as a table; found {nested!r}")

    def flag(name: str) -> bool:
        said = nested.get(name, getattr(config, name, None))
        if said is not None and not isinstance(said, bool):
            raise ValueError(f"expected {name} true or false; found {said!r}")
        return bool(said)

    requires = nested.get(REQUIRES) or ()
    if not isinstance(requires, (list, tuple)):
        raise ValueError(f"expected a list in eagle_config.{REQUIRES}; found {requires!r}")
    unknown = [name for name in requires if name not in KNOWN]
    if unknown:
        raise ValueError(f"expected eagle_config.{REQUIRES} of {', '.join(KNOWN)}; found {unknown[0]!r}")
    layers = int(getattr(config, "num_hidden_layers", 1))
    types = getattr(config, "layer_types", None) or []
    window = getattr(config, "sliding_window", None)
    sliding = [kind == "sliding_attention" for kind in types] or [False] * layers
    if len(sliding) != layers or (any(sliding) and not (type(window) is int and window > 0)):
        raise ValueError(
            f"expected layer_types for {layers} layers and a sliding_window; found {list(types)} and {window}"
        )
    return Features(
        tuple(requires),
        flag("norm_before_residual"),
        flag("norm_before_fc"),
        "qk_norm" in requires,
        "own_embedding" in requires,
        tuple(window if slides else None for slides in sliding),
    )
