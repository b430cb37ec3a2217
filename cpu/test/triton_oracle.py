"""Every kernel that SGLang also has in Triton, against that one run by Triton's interpreter on CPU tensors.

Run by test_cpu_against_triton.py in a process of its own: TRITON_INTERPRET must be set before triton is imported.
Seeded random batches; topk 1 to 4.
"""

import sgl_kernel as cpu
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sglang.kernels.ops.kvcache import cache_move
from sglang.kernels.ops.speculative import cache_locs, eagle, multi_layer_eagle, spec_tree
from sglang.srt.mem_cache import allocation
from sglang.srt.speculative.eagle_utils import organize_draft_results

POOL = 64
FEW = settings(max_examples=25, deadline=None, derandomize=True)
SEEDS = st.integers(0, 10**6)


class Requests:
    """A table of slots and some of its rows with their lengths."""

    def __init__(self, seed: int, most: int = 6):
        self.draw = torch.Generator().manual_seed(seed)
        self.batch = self.integer(1, most)
        self.table = torch.randperm(16 * POOL, generator=self.draw).int().view(16, POOL)
        self.rows = torch.randperm(16, generator=self.draw)[: self.batch]
        self.lens = self.integers(0, 20)

    def integer(self, low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=self.draw))

    def integers(self, low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high + 1, (self.batch,), generator=self.draw)


def drafted(requests: Requests, topk: int, steps: int, nodes: int):
    """Parents and selection of a random draft of `steps` steps, in the layout that SGLang's drafting gives."""
    batch, draw = requests.batch, requests.draw
    total = torch.rand((batch, topk), generator=draw)
    scores, parents = [total[:, None]], [torch.arange(-1, topk).expand(batch, -1)]
    tokens = [torch.zeros((batch, topk), dtype=torch.long)]
    for step in range(1, steps):
        each = total[:, :, None] * torch.rand((batch, topk, topk), generator=draw)
        total, best = each.flatten(1).topk(topk)
        scores.append(each)
        tokens.append(torch.zeros((batch, topk * topk), dtype=torch.long))
        parents.append(best + topk * topk * (step - 1) + topk)
    parent_list, selected, _ = organize_draft_results(scores, tokens, parents, nodes)
    if requests.integer(0, 1):  # any tokens, whether or not what they hang from is selected
        chosen = [torch.randperm(sum(s[0].numel() for s in scores), generator=draw)[: nodes - 1] for _ in range(batch)]
        selected = torch.stack(chosen).sort(1).values
    return parent_list, selected


def trees(seed: int, topk: int, steps: int, mode: int):
    """The same random trees built by both, as (parent_list, selection, cpu's outputs, triton's outputs)."""
    requests = Requests(seed)
    most = topk + (steps - 1) * topk * topk
    nodes = 1 + requests.integer(1, min(9, most))
    parent_list, selected = drafted(requests, topk, steps, nodes)
    lens = requests.lens + 1
    prefix = int(lens.sum()) * nodes if mode == 0 else 0
    built = []
    for build in (cpu.build_tree_kernel_efficient_cpu, spec_tree.sgl_build_tree_kernel_triton):
        mask = torch.ones(prefix + nodes * nodes * requests.batch, dtype=torch.bool)
        positions = torch.zeros(requests.batch * nodes, dtype=torch.long)
        links = torch.full((3, requests.batch, nodes), -1)
        build(parent_list, selected, lens, mask, positions, *links, topk, steps, nodes, spec_tree.TreeMaskMode(mode))
        built.append((mask, positions, links))
    return requests, nodes, built


@FEW
@given(SEEDS, st.integers(1, 4), st.integers(1, 4), st.sampled_from([0, 1]))
def test_trees(seed, topk, steps, mode):
    _, _, (ours, theirs) = trees(seed, topk, steps, mode)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@FEW
@given(SEEDS, st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_greedy_verification(seed, topk, steps, vocabulary):
    requests, nodes, ((_, _, links), _) = trees(seed, topk, steps, 1)
    batch, draw = requests.batch, requests.draw
    candidates, target = torch.randint(vocabulary, (2, batch, nodes), generator=draw)
    longest = requests.integer(1, steps + 1)
    results = []
    for verify in (cpu.verify_tree_greedy_cpu, spec_tree.verify_tree_greedy_triton):
        predicts = torch.zeros(batch * nodes, dtype=torch.int32)
        accepted = torch.full((batch, longest), -1, dtype=torch.int32)
        counts = torch.empty(batch, dtype=torch.int32)
        verify(predicts, accepted, counts, candidates, *links, target)
        results.append((predicts, accepted, counts))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@FEW
@given(SEEDS)
def test_ranges_written_to_and_read_from_the_table(seed):
    requests = Requests(seed)
    ends = requests.lens + requests.integers(0, 9)
    slots = torch.randperm(9 * requests.batch, generator=requests.draw)
    ours, theirs = requests.table.clone(), requests.table.clone()
    cpu.assign_req_to_token_pool_cpu(requests.rows, ours, requests.lens, ends, slots, POOL)
    batch = (requests.batch,)
    allocation.assign_req_to_token_pool[batch](requests.rows, theirs, requests.lens, ends, slots, POOL, 8)
    assert torch.equal(ours, theirs)
    found, expected = torch.full((2, 9 * requests.batch), -7)
    cpu.assign_extend_cache_locs_cpu(requests.rows, ours, requests.lens, ends, found, POOL)
    cache_locs.assign_extend_cache_locs[batch](requests.rows, ours, requests.lens, ends, expected, POOL, 8)
    assert torch.equal(found, expected)


@FEW
@given(SEEDS, st.integers(1, 4), st.integers(1, 5))
def test_slots_that_drafting_writes(seed, topk, steps):
    requests = Requests(seed)
    found, expected = torch.zeros((2, requests.batch * topk * steps), dtype=torch.long)
    cpu.assign_draft_cache_locs_contiguous_cpu(requests.rows, requests.table, requests.lens, found, POOL, topk, steps)
    cache_locs.assign_draft_cache_locs_contiguous[(requests.batch,)](
        requests.rows, requests.table, requests.lens, expected, POOL, topk, steps
    )
    assert torch.equal(found, expected)


@FEW
@given(SEEDS, st.integers(1, 4), st.integers(1, 4))
def test_slots_that_draft_branches_see(seed, topk, steps):
    requests = Requests(seed)
    branches = requests.batch * topk
    table = cpu.build_draft_decode_metadata_cpu(requests.table, requests.rows, requests.lens, topk, steps, POOL)
    assert table.shape == (branches, int(requests.lens.max()) + steps) and table.dtype == torch.int32
    indices = torch.full((steps, branches * POOL), -1)
    starts = torch.zeros((steps, branches + 1), dtype=torch.long)
    lens = requests.lens.repeat_interleave(topk)
    cache_locs.generate_draft_decode_kv_indices[(steps, requests.batch, topk)](
        requests.rows, requests.table, requests.lens, indices, starts, lens,
        POOL, branches * POOL, branches + 1, 8, 4, 32, 1,
    )  # fmt: skip
    for step in range(steps):
        ours = torch.cat([row[: n + step + 1] for row, n in zip(table, lens.tolist(), strict=True)])
        assert ours.tolist() == indices[step, : len(ours)].tolist()


@FEW
@given(SEEDS, st.integers(1, 5))
def test_bonus_tokens(seed, stride):
    requests = Requests(seed)
    tokens = torch.arange(100, 100 + requests.batch * stride, dtype=torch.int32)
    accepted = requests.integers(1, stride).int()
    found, expected = torch.zeros((2, requests.batch), dtype=torch.int32)
    cpu.fill_bonus_tokens_cpu(tokens, accepted, found, stride)
    eagle.fill_bonus_tokens[(requests.batch,)](tokens, accepted, expected, stride)
    assert torch.equal(found, expected)


@FEW
@given(SEEDS)
def test_accepted_slots(seed):
    requests = Requests(seed)
    index = torch.randint(-1, 12, (requests.batch, 3), generator=requests.draw).int()
    slots = torch.randperm(99, generator=requests.draw)[:12]
    found, expected = torch.full((2, index.numel()), -7)
    cpu.fill_accept_out_cache_loc_cpu(index, slots, found)
    eagle.fill_accept_out_cache_loc[(index.numel(),)](index, slots, expected, 32)
    assert torch.equal(found, expected)


@FEW
@given(SEEDS, st.booleans())
def test_rotation(seed, selected):
    requests = Requests(seed)
    lens = requests.integers(0, 6)
    starts = torch.arange(requests.batch) * 7
    select = starts + requests.integers(0, 6) if selected else None
    tokens = requests.integers(500, 600)
    ours = torch.arange(requests.batch * 7)
    theirs = ours.clone()
    cpu.rotate_input_ids_cpu(ours, starts, lens, tokens, select)
    multi_layer_eagle.rotate_input_ids_kernel[(requests.batch,)](theirs, starts, lens, tokens, select, BLOCK_SIZE=8)
    assert torch.equal(ours, theirs)


@FEW
@given(SEEDS)
def test_cache_rows(seed):
    requests = Requests(seed)
    buffers = [torch.randn((12, 2, 3)), torch.randn((12, 5)), torch.randn((12, 1, 4)).bfloat16()]
    copies = [buffer.clone() for buffer in buffers]
    targets, sources = (torch.randperm(12, generator=requests.draw)[:5] for _ in range(2))

    def addressed(tensors):
        strides = torch.tensor([tensor.stride(0) * tensor.itemsize for tensor in tensors])
        return torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.uint64), strides

    cpu.copy_all_layer_kv_cache_cpu(*addressed(buffers), targets, sources)
    cache_move.copy_all_layer_kv_cache_tiled[(3, 1)](*addressed(copies), targets, sources, 5, 8, BYTES_PER_TILE=32)
    assert all(torch.equal(a, b) for a, b in zip(buffers, copies, strict=True))
