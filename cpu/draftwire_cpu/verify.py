"""Greedy verification of EAGLE draft trees."""

import torch

from draftwire_cpu.refusals import expect_shape


def verify_tree_greedy_cpu(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
) -> None:
    """Accept the path of each tree along which the target's greedy choice is a child of the node before.

    candidates: int64 [batch, D], the nodes' tokens. retrive_index, retrive_next_token, retrive_next_sibling: int64
    [batch, D], as `build_tree_kernel_efficient_cpu` writes them. target_predict: integer, batch * D elements, the
    target's choice after each node. S is the greatest length of a path, node 0 included.
    Written: predicts int32 [batch * D], the target's choice at every node of the path (the last is the bonus token).
    accept_index int32 [batch, S], rows of the path's nodes; what lies past its end is left as it is.
    accept_token_num int32 [batch], accepted draft tokens (neither node 0 nor the bonus token counts).
    Raises ValueError on other shapes.
    """
    name = "verify_tree_greedy_cpu"
    batch, nodes = candidates.shape
    for label, tensor in (
        ("retrive_index", retrive_index),
        ("retrive_next_token", retrive_next_token),
        ("retrive_next_sibling", retrive_next_sibling),
    ):
        expect_shape(name, label, tensor, (batch, nodes))
    if target_predict.numel() != batch * nodes or predicts.numel() != batch * nodes:
        raise ValueError(
            f"{name}: target_predict and predicts must hold {batch} * {nodes} tokens, "
            f"found {target_predict.numel()} and {predicts.numel()}"
        )
    expect_shape(name, "accept_index", accept_index, (batch, accept_index.shape[1]))
    expect_shape(name, "accept_token_num", accept_token_num, (batch,))
    chosen = target_predict.reshape(-1).tolist()
    trees = zip(
        candidates.tolist(),
        retrive_index.tolist(),
        retrive_next_token.tolist(),
        retrive_next_sibling.tolist(),
        strict=True,
    )
    steps = accept_index.shape[1]
    places, rows, counts = [], [], []
    for request, tree in enumerate(trees):
        path = _walk(*tree, chosen, steps)
        places += range(request * steps, request * steps + len(path))
        rows += path
        counts.append(len(path) - 1)
    accept_index.view(-1)[places] = torch.tensor(rows, dtype=accept_index.dtype)
    accept_token_num.copy_(torch.tensor(counts))
    predicts[rows] = torch.tensor([chosen[row] for row in rows], dtype=predicts.dtype)


def _walk(
    tokens: list[int], row: list[int], child: list[int], sibling: list[int], chosen: list[int], steps: int
) -> list[int]:
    """Rows of the accepted path of one tree; a linked list is walked, which tensors do no faster."""
    path = [row[0]]
    node = 0
    while len(path) < steps:
        node = child[node]
        while node != -1 and tokens[node] != chosen[path[-1]]:
            node = sibling[node]
        if node == -1:
            break
        path.append(row[node])
    return path
