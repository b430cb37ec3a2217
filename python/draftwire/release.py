"""What differs between SGLang 0.5.8 and 0.5.23 for an EAGLE-3 draft. Read in every release's own sources."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from draftwire.headers import DraftError

RELEASES = (
    "0.5.8", "0.5.8.post1", "0.5.9", "0.5.10", "0.5.10.post1", "0.5.11", "0.5.12", "0.5.12.post1", "0.5.13",
    "0.5.13.post1", "0.5.14", "0.5.15", "0.5.15.post1", "0.5.16", "0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.21",
    "0.5.22", "0.5.23",
)  # fmt: skip
NEWEST = RELEASES[-1]

# The first release that has each.
SINCE = {
    "rope_parameters": "0.5.10",  # models/llama.py; before, only rope_theta and rope_scaling
    "states_gathered_by_group": "0.5.10",  # deepseek_v2.py: over the ranks of one attention; before, over all of them
    "ids_before_graphs": "0.5.11",  # model_runner.py sets the config's ids before graphs are captured
    "spec_v2_trees": "0.5.11",  # server_args.py; before, SGLANG_ENABLE_SPEC_V2 takes topk 1 only
    "plugins": "0.5.11",  # sglang/srt/plugins
    "mla_draft": "0.5.12",  # models/kimi_k25_eagle3.py
    "any_count": "0.5.12",  # llama_eagle3.py: fc for any number of states; before, for three
    "any_layers": "0.5.12",  # llama_eagle3.py: layers.N; before, one midlayer
    "fc_norm": "0.5.12",
    "norm_output": "0.5.12",
    "window_flag": "0.5.12",  # --speculative-draft-window-size
    "mla_norms": "0.5.13",  # kimi_k25_eagle3.py: fc_norm and norm_output
    "page_tree_triton": "0.5.13",  # speculative_hook.py: topk > 1 with pages on the triton backend
    "layer_captures": "0.5.14",  # deepseek_v2.py: a layer captures its own input, layer 0 too, after the all-reduce
    "draft_width_sent": "0.5.15",  # scheduler.py: the transfer buffer has the draft's width, not the target's
    "yarn_mscale": "0.5.16",  # rotary_embedding/yarn.py
    "norm_before_fc": "0.5.17",  # llama_eagle3.py only
    "fp4_of_experts_only": "0.5.18",  # weight_utils.py: modelopt_fp4 without a config leaves dense layers as they are
    "count_checked": "0.5.17",  # AuxHiddenStatePacker: "captured 2 of 3"
}


def parse(release: str) -> Version:
    """Raises DraftError where `release` is no version. A local part such as +cu130 is left out of comparisons."""
    try:
        return Version(release.split("+")[0])
    except InvalidVersion:
        raise DraftError("a release such as 0.5.23", release, "--sglang", "name the SGLang that will serve") from None


def has(release: str, feature: str) -> bool:
    """Whether a release has `feature`, a key of SINCE."""
    return parse(release) >= Version(SINCE[feature])


def is_known(release: str) -> bool:
    """Whether the tables here were read in that release."""
    return str(parse(release)) in RELEASES
