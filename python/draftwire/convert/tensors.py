"""Tensors under the names that SGLang reads, each with the shape that the config gives it."""

from __future__ import annotations

from typing import Any

from draftwire.convert.output import Piece
from draftwire.convert.vocabulary import little_endian, read_offsets, require_identity
from draftwire.draft import Draft, DraftError
from draftwire.features import MARKED, REQUIRES
from draftwire.headers import Stored
from draftwire.tensor_names import rename

CHUNK = 8 * 1024 * 1024
FLOATS = ("BF16", "F16", "F32")


def arrange(draft: Draft, config: dict[str, Any], count: int, *, marked: bool) -> tuple[dict[str, Piece], list[str]]:
    """Every tensor by its name in the output, and what is worth saying of them. `config` is the output's; its
    draft_vocab_size becomes None where the target's lm_head is to be used.

    count: captured states that feed fc. marked: whether a stock server must refuse the draft (see features).
    Raises DraftError on a tensor that is missing, unknown, or of another shape or dtype than the config says.
    """
    expected = expect(config, count)
    found = {}
    for name, tensor in draft.tensors.items():
        renamed = rename(name, speculators=draft.layout == "speculators")
        if renamed in found:
            raise DraftError(f"one tensor for {renamed}", f"also {name!r}", tensor.file, "export the draft again")
        found[renamed] = tensor
    notes = _require_all(draft, config, expected, found)
    pieces = {name: Piece(t.dtype, t.shape, t) for name, t in found.items()}
    if config["draft_vocab_size"] not in (None, config["vocab_size"]):
        offsets, said = read_offsets(found, config["draft_vocab_size"], config["vocab_size"])
        notes += said
        if offsets is not None:
            pieces["d2t"] = Piece("I64", (len(offsets),), found["d2t"], little_endian(offsets))
    else:
        require_identity(found, config["vocab_size"])
        if dropped := [name for name in ("d2t", "t2d") if pieces.pop(name, None)]:
            notes.append(f"{' and '.join(dropped)} left out: the draft has the whole vocabulary")
    if config["tie_word_embeddings"] and "lm_head.weight" in pieces:
        _require_equal(found["embed_tokens.weight"], found["lm_head.weight"])
        del pieces["lm_head.weight"]
        notes.append("lm_head left out: it is embed_tokens, as tie_word_embeddings says")
    if marked:
        mark = pieces[f"layers.0.{MARKED}"]
        pieces[f"layers.0.{MARKED}"] = mark._replace(shape=(1, *mark.shape))
    return pieces, notes


def expect(config: dict[str, Any], count: int) -> dict[str, tuple[int, ...]]:
    """Name and shape of every floating-point tensor of a draft with this config and `count` captured states."""
    hidden, inner, wide = config["hidden_size"], config["intermediate_size"], count * config["target_hidden_size"]
    if wide == hidden:
        raise DraftError(
            f"a hidden size other than {count} x {config['target_hidden_size']} captured values", hidden,
            "the draft's config",
            "train on more states or another width: SGLang would take them for the draft's own and skip fc",
        )  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {"fc.weight": (hidden, wide), "norm.weight": (hidden,)}
    if config["norm_before_fc"]:
        shapes["input_norm.weight"] = (wide,)
    if config["fc_norm"]:
        shapes |= {f"fc_norm.{i}.weight": (config["target_hidden_size"],) for i in range(count)}
    for i in range(config["num_hidden_layers"]):
        layer: dict[str, tuple[int, ...]] = {"hidden_norm": (hidden,), "post_attention_layernorm": (hidden,)}
        if i == 0:
            layer["input_layernorm"] = (hidden,)
        layer |= {"mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner)}
        attention = _mla(config) if "kv_lora_rank" in config else _attention(config, 2 * hidden if i == 0 else hidden)
        layer |= {f"self_attn.{name}": shape for name, shape in attention.items()}
        shapes |= {f"layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    shapes["embed_tokens.weight"] = (config["vocab_size"], hidden)
    shapes["lm_head.weight"] = (config["draft_vocab_size"] or config["vocab_size"], hidden)
    return shapes


def _attention(config: dict[str, Any], width: int) -> dict[str, tuple[int, ...]]:
    hidden, dim = config["hidden_size"], config["head_dim"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {"q_proj": (heads * dim, width), "k_proj": (groups * dim, width)}
    shapes |= {"v_proj": (groups * dim, width), "o_proj": (hidden, heads * dim)}
    if "qk_norm" in config["eagle_config"].get(REQUIRES, ()):
        shapes |= {"q_norm": (dim,), "k_norm": (dim,)}
    return shapes


def _mla(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    query, latent, rope = config["q_lora_rank"], config["kv_lora_rank"], config["qk_rope_head_dim"]
    nope, value = config["qk_nope_head_dim"], config["v_head_dim"]
    return {
        "q_a_proj": (query, 2 * hidden), "q_a_layernorm": (query,), "q_b_proj": (heads * (nope + rope), query),
        "kv_a_proj_with_mqa": (latent + rope, 2 * hidden), "kv_a_layernorm": (latent,),
        "kv_b_proj": (heads * (nope + value), latent), "o_proj": (hidden, heads * value),
    }  # fmt: skip


def _require_all(draft: Draft, config: dict[str, Any], expected: dict, found: dict) -> list[str]:
    notes = []
    for name, shape in expected.items():
        if name not in found:
            notes.append(_without(name, draft, config))
            continue
        tensor = found[name]
        if tensor.shape != shape or tensor.dtype not in FLOATS:
            raise DraftError(
                f"{name} {list(shape)} of {', '.join(FLOATS)}", f"{list(tensor.shape)} of {tensor.dtype}", tensor.file,
                "correct the config, or export the draft again",
            )  # fmt: skip
    if unknown := sorted(found.keys() - expected.keys() - {"d2t", "t2d"}):
        raise DraftError(
            "no tensor that SGLang would drop", unknown[0], found[unknown[0]].file,
            "set the config's flag that it belongs to, or remove it",
        )  # fmt: skip
    return [note for note in notes if note]


def _require_equal(embedding: Stored, head: Stored) -> None:
    """Raises DraftError where the stored head of a tied draft is another tensor than its embedding."""
    same = embedding.dtype == head.dtype and embedding.size == head.size
    with embedding.file.open("rb") as one, head.file.open("rb") as other:
        one.seek(embedding.start)
        other.seek(head.start)
        for left in range(embedding.size if same else 0, 0, -CHUNK):
            if one.read(min(CHUNK, left)) != other.read(min(CHUNK, left)):
                same = False
                break
    if not same:
        raise DraftError(
            "lm_head.weight equal to embed_tokens.weight beside tie_word_embeddings", "another", head.file,
            "write tie_word_embeddings false, or leave the lm_head out: keep the one that was trained",
        )  # fmt: skip


def _without(name: str, draft: Draft, config: dict[str, Any]) -> str:
    """What becomes of a draft that lacks this tensor. Raises DraftError where SGLang would leave it at random."""
    shared = config["target_hidden_size"] == config["hidden_size"]
    own = "own_embedding" in config["eagle_config"].get(REQUIRES, ())
    if name == "embed_tokens.weight" and shared and not own and not config["tie_word_embeddings"]:
        return "no embed_tokens: SGLang takes the target's"
    whole = config["draft_vocab_size"] == config["vocab_size"]
    if name == "lm_head.weight" and config["tie_word_embeddings"]:
        return ""
    if name == "lm_head.weight" and whole and shared and not own:
        config["draft_vocab_size"] = None
        return "no lm_head: SGLang takes the target's"
    raise DraftError(name, "no such tensor", draft.directory, "export the draft again, or correct the config")
