"""EAGLE draft trees: their links and mask, and the greedy walk that accepts a path.

A request's tree has D nodes: node 0 is the last token that the target confirmed, nodes 1 to D - 1 are draft tokens.
"""

import torch

from draftwire_cpu.refusals import expect_shape, refuse

FULL_MASK, QLEN_ONLY = 0, 1


def build_tree_kernel_efficient_cpu(
    parent_list: torch.Tensor,
    selected_index: torch.Tensor,
    verified_seq_len: torch.Tensor,
    tree_mask: torch.Tensor,
    positions: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Links, positions and attention mask of the trees that drafting selected.

    Draft token number s of all that were drafted (`selected_index`) hangs from entry s // topk of its request's
    `parent_list`: entry 0 is node 0, another holds the number of the parent. D is draft_token_num.

    parent_list: int64 [batch, entries]. selected_index: int64 [batch, D - 1], ascending.
    verified_seq_len (L): integer [batch]. depth: the number of drafting steps.
    Written: tree_mask bool, flat; with mode 1 (QLEN_ONLY) batch * D * D, whether node t sees node c; with mode 0
    (FULL_MASK) a [D, L + D] block a request, of which only the last D columns are written.
    positions int64 [batch * D], L plus the node's depth. retrieve_index int64 [batch, D], the node's row in the
    batch. retrieve_next_token, retrieve_next_sibling int64 [batch, D], first child and next sibling, or -1.
    Raises ValueError on other shapes, NotImplementedError on another tree_mask_mode (2 is bit-packed).
    """
    name = "build_tree_kernel_efficient_cpu"
    batch, nodes = verified_seq_len.numel(), draft_token_num
    if tree_mask_mode not in (FULL_MASK, QLEN_ONLY):
        refuse(name, "tree_mask_mode", int(tree_mask_mode), "0 (FULL_MASK) and 1 (QLEN_ONLY)")
    expect_shape(name, "selected_index", selected_index, (batch, nodes - 1))
    expect_shape(name, "positions", positions, (batch * nodes,))
    for label, tensor in (
        ("retrieve_index", retrieve_index),
        ("retrieve_next_token", retrieve_next_token),
        ("retrieve_next_sibling", retrieve_next_sibling),
    ):
        expect_shape(name, label, tensor, (batch, nodes))

    parent = _parents(parent_list, selected_index, topk)
    torch.arange(batch * nodes, out=retrieve_index.view(-1))
    _link(parent, retrieve_next_token, retrieve_next_sibling)
    sees, level = _ancestors(parent, depth)
    positions.view(batch, nodes).copy_(verified_seq_len[:, None] + level)
    _write_mask(name, sees, verified_seq_len, tree_mask, tree_mask_mode)


def _parents(parent_list: torch.Tensor, selected_index: torch.Tensor, topk: int) -> torch.Tensor:
    """Parent node of every node, int64 [batch, D]; -1 for node 0 and for a token whose parent was not selected."""
    entry = selected_index // topk
    parent = torch.full((selected_index.shape[0], selected_index.shape[1] + 1), -1)
    if parent_list.numel():
        number = parent_list.gather(1, entry)
        same = selected_index[:, None, :] == number[:, :, None]
        found, first = same.max(2)
        parent[:, 1:] = torch.where(found, first + 1, -1)
    parent[:, 1:].masked_fill_(entry == 0, 0)
    return parent


def _link(parent: torch.Tensor, next_token: torch.Tensor, next_sibling: torch.Tensor) -> None:
    """Write each node's first child and next sibling, both in ascending order of nodes."""
    nodes = parent.shape[1]
    node = torch.arange(nodes)
    child = parent[:, None, :] == node[:, None]
    first = torch.where(child, node, nodes).amin(2)
    next_token.copy_(first.masked_fill_(first == nodes, -1))
    later = (parent[:, None, :] == parent[:, :, None]) & (parent >= 0)[:, None, :] & (node > node[:, None])
    following = torch.where(later, node, nodes).amin(2)
    next_sibling.copy_(following.masked_fill_(following == nodes, -1))


def _ancestors(parent: torch.Tensor, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which nodes a node sees (itself, its ancestors, node 0), bool [batch, D, D], and its depth [batch, D]."""
    batch, nodes = parent.shape
    current = torch.arange(nodes).expand(batch, nodes)
    sees = torch.zeros((batch, nodes, nodes), dtype=torch.bool)
    level = torch.zeros_like(parent)
    for _ in range(depth):
        level += current > 0
        sees.scatter_(2, current[:, :, None], True)
        current = parent.gather(1, current).clamp_(min=0)
    sees[:, :, 0] = True
    return sees, level


def _write_mask(
    function: str, sees: torch.Tensor, seq_lens: torch.Tensor, tree_mask: torch.Tensor, mode: int
) -> None:
    batch, nodes, _ = sees.shape
    wanted = sees.numel() + (nodes * int(seq_lens.sum()) if mode == FULL_MASK else 0)
    if tree_mask.dim() != 1 or tree_mask.numel() < wanted:
        raise ValueError(f"{function}: tree_mask must be flat and hold {wanted} cells, found {list(tree_mask.shape)}")
    if mode == QLEN_ONLY:
        tree_mask[:wanted] = sees.view(-1)
        return
    width = seq_lens + nodes
    block = (width.cumsum(0) - width) * nodes
    row = torch.arange(nodes) * width[:, None] + block[:, None] + seq_lens[:, None]
    tree_mask[(row[:, :, None] + torch.arange(nodes)).view(-1)] = sees.view(-1)


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
