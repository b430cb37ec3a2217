"""Which tokens a query does not see."""

import torch


def hidden(
    padding: torch.Tensor | None, width: int, new: int, causal: bool, window: int, tree: torch.Tensor | None
) -> torch.Tensor | None:
    """Which of the last M tokens each of the last `new` does not see, bool [B or 1, new or 1, M].

    M is `new` where everything before is seen, else `width`; None where all are seen. padding: bool [B, 1, width],
    True where a shorter request has no token, or None. causal: a query sees no later token. tree: bool
    [B, new, new], True where a new token sees a new token, in place of the causal rule. window: how many tokens a
    query sees up to itself; 0 or less is all.
    """
    windowed = 0 < window < width
    if tree is None and not windowed and (new == 1 or not causal):
        return padding
    if padding is None and not windowed:
        width = new
        if tree is not None:
            return ~tree
    ahead = torch.arange(width) - torch.arange(width - new, width)[:, None]
    if tree is not None:
        unseen = torch.zeros((tree.shape[0], new, width), dtype=torch.bool)
        unseen[:, :, width - new :] = ~tree
    else:
        unseen = (ahead > 0 if causal else torch.zeros_like(ahead, dtype=torch.bool))[None]
    if windowed:
        unseen = unseen | (ahead <= -window)
    return unseen if padding is None else unseen | padding
