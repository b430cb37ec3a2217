"""Shapes that do not fit are refused with what was expected and what was found; what is unsupported by its name."""

import pytest
import sgl_kernel as cpu
import torch

TABLE = torch.arange(4 * 16, dtype=torch.int32).view(4, 16)
TWO = torch.tensor([1, 2])


def slots(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.long)


def tree(mode: int = 1, cells: int = 18, nodes: int = 3, **changed) -> None:
    arguments = {
        "parent_list": torch.zeros((2, 0), dtype=torch.long), "selected_index": torch.tensor([[0, 1]] * 2),
        "verified_seq_len": TWO, "tree_mask": torch.ones(cells, dtype=torch.bool), "positions": slots(6),
        "retrieve_index": slots(6).view(2, 3), "retrieve_next_token": slots(6).view(2, 3),
        "retrieve_next_sibling": slots(6).view(2, 3), "topk": 2, "depth": 1, "draft_token_num": nodes,
        "tree_mask_mode": mode,
    }  # fmt: skip
    cpu.build_tree_kernel_efficient_cpu(*(arguments | changed).values())


def verify(**changed) -> None:
    grid = slots(6).view(2, 3)
    arguments = {
        "predicts": slots(6), "accept_index": slots(4).view(2, 2), "accept_token_num": slots(2), "candidates": grid,
        "retrive_index": torch.arange(6).view(2, 3), "retrive_next_token": grid - 1, "retrive_next_sibling": grid - 1,
        "target_predict": grid,
    }  # fmt: skip
    cpu.verify_tree_greedy_cpu(**(arguments | changed))


REFUSED = {
    "table of another length": (
        lambda: cpu.assign_extend_cache_locs_cpu(TWO, TABLE, TWO, TWO, slots(9), 15),
        r"req_to_token must be contiguous with shape \[requests, 15\] \(pool_len\), found \[4, 16\]",
    ),
    "table not contiguous": (
        lambda: cpu.assign_extend_cache_locs_cpu(TWO, TABLE[:, :8], TWO, TWO, slots(9), 8),
        r"strides \[16, 1\]",
    ),
    "one length too many": (
        lambda: cpu.assign_req_to_token_pool_cpu(TWO, TABLE, slots(3), TWO, slots(9), 16),
        r"start_offset must have shape \[2\], found \[3\]",
    ),
    "one end too many": (
        lambda: cpu.assign_req_to_token_pool_cpu(TWO, TABLE, slots(2), slots(3), slots(9), 16),
        r"end_offset must have shape \[2\], found \[3\]",
    ),
    "an end before its start": (
        lambda: cpu.assign_req_to_token_pool_cpu(TWO, TABLE, TWO, slots(2), slots(9), 16),
        r"end_offset must not lie before start_offset, found \[1, 2\] to \[0, 0\]",
    ),
    "written beyond the row": (
        lambda: cpu.assign_req_to_token_pool_cpu(TWO, TABLE, TWO, TWO + 15, slots(40), 16),
        "must end at pool_len 16 or before, found 17",
    ),
    "too few slots to write": (
        lambda: cpu.assign_req_to_token_pool_cpu(TWO, TABLE, TWO, TWO + 3, slots(5), 16),
        "out_cache_loc must hold 6 slots, found 5",
    ),
    "too little room to read into": (
        lambda: cpu.assign_extend_cache_locs_cpu(TWO, TABLE, TWO, TWO + 3, slots(5), 16),
        "out_cache_loc must hold 6 slots, found 5",
    ),
    "draft slots of another count": (
        lambda: cpu.assign_draft_cache_locs_contiguous_cpu(TWO, TABLE, TWO, slots(11), 16, 2, 3),
        r"out_cache_loc must have shape \[12\], found \[11\]",
    ),
    "draft slots beyond the row": (
        lambda: cpu.assign_draft_cache_locs_contiguous_cpu(TWO, TABLE, TWO + 9, slots(12), 16, 2, 3),
        "must end at pool_len 16 or before, found 17",
    ),
    "draft branches beyond the row": (
        lambda: cpu.build_draft_decode_metadata_cpu(TABLE, TWO, TWO + 9, 2, 3, 16),
        "must end at pool_len 16 or before, found 17",
    ),
    "bonus tokens of another count": (
        lambda: cpu.fill_bonus_tokens_cpu(slots(6), TWO, slots(3), 3),
        r"bonus_tokens must have shape \[2\], found \[3\]",
    ),
    "accepted tokens of another count": (
        lambda: cpu.fill_bonus_tokens_cpu(slots(5), TWO, slots(2), 3),
        r"accept_tokens must hold 2 \* 3 tokens, found 5",
    ),
    "nothing accepted": (
        lambda: cpu.fill_bonus_tokens_cpu(slots(6), TWO - 1, slots(2), 3),
        r"accept_lens must lie in 1 to 3, found \[0, 1\]",
    ),
    "more accepted than drafted": (
        lambda: cpu.fill_bonus_tokens_cpu(slots(6), TWO + 2, slots(2), 3),
        r"accept_lens must lie in 1 to 3, found \[3, 4\]",
    ),
    "too little room for accepted slots": (
        lambda: cpu.fill_accept_out_cache_loc_cpu(TWO, slots(6), slots(1)),
        "accept_out_cache_loc must hold 2 slots, found 1",
    ),
    "rotation starts of another count": (
        lambda: cpu.rotate_input_ids_cpu(slots(6), slots(3), TWO, slots(2)),
        r"extend_start_loc must have shape \[2\], found \[3\]",
    ),
    "next tokens of another count": (
        lambda: cpu.rotate_input_ids_cpu(slots(6), slots(2), TWO, slots(3)),
        "topk_index must hold 2 tokens, found 3",
    ),
    "places of another count": (
        lambda: cpu.rotate_input_ids_cpu(slots(6), slots(2), TWO, slots(2), slots(3)),
        r"select_index must have shape \[2\], found \[3\]",
    ),
    "rows to copy of another count": (
        lambda: cpu.copy_all_layer_kv_cache_cpu(slots(1), slots(1), slots(2), slots(3)),
        r"src_loc must have shape \[2\], found \[3\]",
    ),
    "strides of another count": (
        lambda: cpu.copy_all_layer_kv_cache_cpu(slots(1), slots(2), slots(2), slots(2)),
        r"strides must have shape \[1\], found \[2\]",
    ),
    "a negative row": (
        lambda: cpu.copy_all_layer_kv_cache_cpu(slots(1), slots(1), slots(2), TWO - 2),
        "slots must be 0 or more, found -1",
    ),
    "selection of another width": (
        lambda: tree(nodes=4),
        r"selected_index must have shape \[2, 3\], found \[2, 2\]",
    ),
    "positions of another count": (
        lambda: tree(positions=slots(7)),
        r"positions must have shape \[6\], found \[7\]",
    ),
    "links of another shape": (
        lambda: tree(retrieve_next_token=slots(6)),
        r"retrieve_next_token must have shape \[2, 3\], found \[6\]",
    ),
    "mask too short": (lambda: tree(cells=17), r"tree_mask must be flat and hold 18 cells, found \[17\]"),
    "full mask too short": (lambda: tree(0, 26), r"tree_mask must be flat and hold 27 cells, found \[26\]"),
    "tree links of another shape": (
        lambda: verify(retrive_next_sibling=slots(6)),
        r"retrive_next_sibling must have shape \[2, 3\], found \[6\]",
    ),
    "target's choices of another count": (
        lambda: verify(target_predict=slots(5)),
        r"target_predict and predicts must hold 2 \* 3 tokens, found 5 and 6",
    ),
    "accepted paths of another count": (
        lambda: verify(accept_index=slots(3).view(3, 1)),
        r"accept_index must have shape \[2, 1\], found \[3, 1\]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_what_is_refused_is_accepted_when_mended():
    tree()
    tree(0, 27)
    verify()


def test_bit_packed_tree_mask_is_refused_by_name():
    with pytest.raises(NotImplementedError, match=r"build_tree_kernel_efficient_cpu: tree_mask_mode=2"):
        tree(2)


def test_an_empty_batch_is_nothing_to_do():
    none = slots(0)
    cpu.assign_req_to_token_pool_cpu(none, TABLE.clone(), none, none, none, 16)
    cpu.assign_extend_cache_locs_cpu(none, TABLE, none, none, none, 16)
    cpu.assign_draft_cache_locs_contiguous_cpu(none, TABLE, none, none, 16, 2, 3)
    assert cpu.build_draft_decode_metadata_cpu(TABLE, none, none, 2, 3, 16).shape == (0, 3)
    cpu.fill_bonus_tokens_cpu(none, none, none, 3)
    cpu.fill_accept_out_cache_loc_cpu(none, none, none)
    cpu.rotate_input_ids_cpu(none, none, none, none)
    cpu.copy_all_layer_kv_cache_cpu(none, none, none, none)
