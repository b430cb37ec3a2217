"""Which tokens a query does not see."""

import torch


def hidden(
    lens: list[int], width: int, new: int, causal: bool, window: int, tree: torch.Tensor | None
) -> torch.Tensor | None:
    """Which of the last `width` tokens each of the last `new` does not see, bool [B or 1, new or 1, width].

    None where all are seen. Requests are aligned at their ends: a shorter one of `lens` is hidden at the front.
    tree: bool [B, new, new], True where a new token sees a new token, in place of the causal rule. window: how many
    tokens a query sees up to itself; 0 or less is all.
    """
    padding = None
    if min(lens) < width:
        padding = (torch.arange(width) < (width - torch.tensor(lens))[:, None])[:, None]
    windowed = 0 < window < width
    if tree is None and not windowed and (new == 1 or not causal):
        return padding
    ahead = torch.arange(width) - torch.arange(width - new, width)[:, None]
    pairs = (ahead > 0 if causal and tree is None else torch.zeros_like(ahead, dtype=torch.bool))[None]
    if tree is not None:
        pairs = pairs.repeat(tree.shape[0], 1, 1)
        pairs[:, :, width - new :] = ~tree
    if windowed:
        pairs = pairs | (ahead <= -window)
    return pairs if padding is None else pairs | padding
