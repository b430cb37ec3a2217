"""EAGLE draft trees: their links, positions and mask.

A request's tree has D nodes: node 0 is the last token that the target confirmed, nodes 1 to D - 1 are draft tokens.
"""

import torch

from draftwire_cpu.refusals import expect_shape, refuse

FULL_MASK, QLEN_ONLY = 0, 1
NONE = torch.tensor(-1)  # no such node


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
    node = torch.arange(parent.shape[1])
    found, first = (parent[:, None, :] == node[:, None]).max(2)
    next_token.copy_(first.where(found, NONE))
    later = (parent[:, None, :] == parent[:, :, None]) & (node > node[:, None])
    found, first = later.max(2)
    next_sibling.copy_(first.where(found & (parent >= 0), NONE))


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


def _write_mask(function: str, sees: torch.Tensor, seq_lens: torch.Tensor, tree_mask: torch.Tensor, mode: int) -> None:
    nodes = sees.shape[1]
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
