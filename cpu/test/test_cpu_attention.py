"""Both attention operators against torch.nn.functional.scaled_dot_product_attention."""

import pytest
import sgl_kernel
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sequences import SCALE, Batch, decode, decode_arguments, extend, extend_arguments

from draftwire_cpu import batching, softmax

assert sgl_kernel.PROVIDED_BY == "draftwire-cpu"
CLOSE = {torch.float32: 2e-5, torch.bfloat16: 2e-2}
MLA = {"groups": 1, "width": 10, "value_width": 6, "mla": True}
SHAPES = [MLA, {"groups": 4}, {"groups": 2}, {"groups": 1}, {"groups": 2, "width": 6, "value_width": 5}]
LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=6)
FEW = settings(max_examples=60, deadline=None, derandomize=True)


def close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.allclose(found.float(), expected, atol=CLOSE[found.dtype], rtol=CLOSE[found.dtype])


def tree(new: int, generator: torch.Generator) -> torch.Tensor:
    """Whether node t sees node c, for random parents: itself, its ancestors and node 0."""
    sees = torch.eye(new, dtype=torch.bool)
    for node in range(1, new):
        sees[node] |= sees[int(torch.randint(node, (1,), generator=generator))]
    return sees


@FEW
@given(LENGTHS, st.sampled_from(SHAPES), st.sampled_from([0, 0, 1, 3]), st.sampled_from([*CLOSE]), st.integers(0, 99))
def test_decode_is_softmax_attention(lens, shape, window, dtype, seed):
    batch = Batch(lens, [1] * len(lens), dtype=dtype, seed=seed, **shape)
    assert close(decode(batch, window=window), batch.expected(window))


@FEW
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from(SHAPES),
    st.sampled_from([0, 0, 1, 4]),
    st.sampled_from(["causal", "all", "tree"]),
    st.sampled_from(["given", "given flat", "cached"]),
    st.integers(0, 99),
)
@example([(0, 1), (1, 1)], False, MLA, 0, "causal", "given", 0)  # one prefix, and one request not stored yet
@example([(1, 2), (2, 2), (1, 3), (2, 3)], False, MLA, 0, "tree", "cached", 0)  # trees of two sizes, two of each
def test_extend_is_softmax_attention(sizes, even, shape, window, rule, source, seed):
    new = [sizes[0][1] if even else own for _, own in sizes]
    batch = Batch([prefix + own for (prefix, _), own in zip(sizes, new, strict=True)], new, seed=seed, **shape)
    generator = torch.Generator().manual_seed(seed)
    trees = [tree(own, generator) for own in new] if rule == "tree" else None
    expected = batch.expected(window, rule == "causal", trees)
    k = v = None
    if source != "cached":
        k, v = (buffer[batch.newest()] for buffer in (batch.keys, batch.values))
        batch.keys[batch.newest()] = float("nan")
        batch.values[batch.newest()] = float("nan")
    if source == "given flat":
        k, v = k.reshape(len(k), -1), v.reshape(len(v), -1)
    assert close(extend(batch, k, v, window=window, causal=rule == "causal", trees=trees), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_decode_stores_the_newest_token_and_nothing_else(shape):
    batch = Batch([3, 7, 1], [1, 1, 1], **shape)
    expected, keys, values = batch.expected(), batch.keys.clone(), batch.values.clone()
    newest = batch.newest()
    k, v = keys[newest].reshape(3, -1), values[newest].reshape(3, -1)
    batch.keys[newest] = batch.values[newest] = -9.0
    assert close(decode(batch, k, v), expected)
    assert torch.equal(batch.keys.nan_to_num(7), keys.nan_to_num(7))
    assert torch.equal(batch.values.nan_to_num(7), values.nan_to_num(7))


def test_extend_stores_nothing():
    batch = Batch([6, 4], [3, 3])
    keys, values = batch.keys.clone(), batch.values.clone()
    extend(batch, torch.randn(6, 2, 8), torch.randn(6, 2, 8))
    assert torch.equal(batch.keys.nan_to_num(7), keys.nan_to_num(7))
    assert torch.equal(batch.values.nan_to_num(7), values.nan_to_num(7))


def test_mla_prefill_that_was_not_absorbed_keeps_its_own_heads():
    heads = Batch([5, 2, 4], [5, 2, 4], groups=4, width=7, value_width=6)
    expected = heads.expected()
    k, v = heads.keys[heads.newest()], heads.values[heads.newest()]
    latent = Batch([5, 2, 4], [5, 2, 4], **MLA)
    latent.q = heads.q
    assert close(extend(latent, k, v), expected)


@pytest.mark.parametrize(
    ("lens", "new", "starts"),
    [([6, 4, 5, 7], [2, 0, 2, 2], [0, 2, 5, 7]), ([6, 5], [2, 2], [0, 5]), ([3, 4], [1, 2], [0, 2])],
)
def test_rows_of_q_may_lie_apart_and_requests_may_extend_by_nothing(lens, new, starts):
    batch = Batch(lens, new)
    used = torch.cat([torch.arange(start, start + n) for start, n in zip(starts, new, strict=True)])
    q, o = torch.full((9, 4, 8), float("nan")), torch.full((9, 4, 8), -1.0)
    q[used] = batch.q
    extend(batch, changed={"q": q, "o": o, "extend_start_loc": torch.tensor(starts)})
    assert close(o[used], batch.expected())
    o[used] = -1
    assert (o == -1).all()


@pytest.mark.parametrize("run", [decode, extend])
def test_logit_cap_bends_the_scores(run):
    batch = Batch([9], [1])
    scores = torch.einsum("hd,mhd->hm", batch.q[0], batch.keys[batch.rows[0]].repeat_interleave(2, 1)) * SCALE
    weights = (1.5 * torch.tanh(scores / 1.5)).softmax(-1)
    expected = torch.einsum("hm,mhd->hd", weights, batch.values[batch.rows[0]].repeat_interleave(2, 1))
    assert close(run(batch, cap=1.5)[0], expected)
    assert not close(run(batch)[0], expected)


def test_an_empty_batch_is_nothing_to_do():
    batch = Batch([2], [1])
    none = torch.zeros(0, dtype=torch.long)
    empty = {"q": batch.q[:0], "o": batch.q[:0], "k": batch.q[:0, :2], "v": batch.q[:0, :2]}
    empty |= {"req_pool_indices": none, "seq_lens": none}
    keys = batch.keys.clone()
    decode(batch, changed=empty | {"loc": none})
    extend(batch, changed=empty | {"extend_seq_lens": none, "extend_start_loc": none})
    assert torch.equal(batch.keys.nan_to_num(7), keys.nan_to_num(7))


@pytest.mark.parametrize("gathered", [1, 200, 600])
def test_a_batch_too_large_to_gather_is_attended_in_parts(monkeypatch, gathered):
    batch = Batch([9, 9, 3, 11, 12], [1] * 5)
    whole = decode(batch)
    monkeypatch.setattr(batching, "GATHERED", gathered)
    assert len(list(batching.parts(batch.lens, batch.new, batch.starts, 32, 0))) == {1: 5, 200: 5, 600: 4}[gathered]
    assert close(decode(batch), whole)


@pytest.mark.parametrize("trees", [None, [torch.ones(5, 5, dtype=torch.bool).tril()] * 2])
def test_a_long_prompt_is_attended_from_in_blocks(monkeypatch, trees):
    batch = Batch([9, 6], [5, 5])
    whole = extend(batch, trees=trees)
    monkeypatch.setattr(softmax, "SCORES", 2 * 2 * 4 * 9)
    assert close(extend(batch, trees=trees), whole)
    assert close(extend(batch, causal=False), batch.expected(causal=False))


@pytest.mark.parametrize("arguments", [decode_arguments, extend_arguments])
def test_operators_write_only_what_their_schema_says(arguments):
    operator = getattr(torch.ops.sgl_kernel, arguments.__name__.replace("_arguments", "_attention_cpu")).default
    batch = Batch([4, 2], [1, 1])
    passed = arguments(batch, torch.randn(2, 2, 8), torch.randn(2, 2, 8))
    torch.library.opcheck(operator, tuple(passed.values()), test_utils="test_schema")


@pytest.mark.parametrize("run", [decode, extend])
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("is_cross_attn", True),
        ("encoder_lens", torch.tensor([3])),
        ("sinks", torch.zeros(4)),
        ("k_scale", 0.5),
        ("v_scale", 2.0),
    ],
)
def test_what_is_not_supported_is_refused_by_name(run, argument, value):
    with pytest.raises(NotImplementedError, match=rf"{run.__name__}_attention_cpu: .*{argument}"):
        run(Batch([3], [1]), changed={argument: value})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"o": torch.zeros(1, 3, 8)}, "o must begin with q's"),
        ({"seq_lens": torch.tensor([3, 3])}, "one length"),
        ({"seq_lens": torch.tensor([1])}, r"must hold the query counts \[2\], found \[1\]"),
        ({"tree_mask": torch.ones(3, dtype=torch.bool)}, r"tree_mask must have shape \[4\], found \[3\]"),
        ({"tree_mask": torch.ones(4, dtype=torch.uint8)}, "tree_mask must be bool"),
        ({"q": torch.zeros(2, 3, 8), "o": torch.zeros(2, 3, 8)}, "expected query heads in multiples of 2"),
        ({"k": torch.zeros(2, 1, 8), "v": torch.zeros(2, 1, 8)}, "beside a cached prefix"),
    ],
)
def test_extend_refuses_shapes_that_do_not_fit(changed, message):
    with pytest.raises(ValueError, match=message):
        extend(Batch([3], [2]), changed=changed)


def test_decode_refuses_shapes_that_do_not_fit():
    batch = Batch([3, 4], [1, 1])
    with pytest.raises(ValueError, match=r"q must have shape \[2, 4, 8\], found \[3, 4, 8\]"):
        decode(batch, changed={"q": torch.zeros(3, 4, 8)})
    with pytest.raises(ValueError, match=r"loc must have shape \[2\], found \[1\]"):
        decode(batch, torch.zeros(2, 2, 8), torch.zeros(2, 2, 8), changed={"loc": torch.zeros(1, dtype=torch.long)})
    with pytest.raises(ValueError, match=r"must hold the query counts \[1, 1\], found \[0, 4\]"):
        decode(batch, changed={"seq_lens": torch.tensor([0, 4])})
