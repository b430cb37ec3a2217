"""Each line of a patch is needed: without it a behaviour that the tests above show is gone."""

from __future__ import annotations

from functools import partial

import patch_cases
import pytest
from patched import LAYER_CAPTURES, LOOP_CAPTURES, RELEASES, apply_patch

GRAPHS = RELEASES[: RELEASES.index("0.5.11")]
IDS = "eagle_aux_hidden_state_layer_ids\n"
CAPTURES = partial(patch_cases.captures, boundaries=[0, 3, 6])


def graphs(release, patched):
    patch_cases.graphs_capture_the_drafts_ids(patched)


def kimi(release, patched):
    patch_cases.kimi_starts(patched)


def normed(release, patched):
    patch_cases.first_layer_keeps_the_normed_state(patched)


def loader(release, patched):
    patch_cases.stray_tensors_reach_the_check(patched)


def widths(release, patched):
    patch_cases.extend_buffers_are_as_wide_as_the_states(patched)


def launch(release, patched):
    patch_cases.drafts_are_checked_at_launch(patched)


# (what is lost, releases, text of the patch, what it becomes, the check that must fail)
MUTATIONS = [
    ("the copy of the embedding", LOOP_CAPTURES, "hidden_states.clone()", "hidden_states", CAPTURES),
    ("the embedding", LOOP_CAPTURES, "if i == 0 and -1 in", "if i == 0 and -2 in", CAPTURES),
    ("-1 for boundary 0", LOOP_CAPTURES, "[b or -1 for b in layer_ids]", "list(layer_ids)", CAPTURES),
    ("the boundaries", LAYER_CAPTURES, "+            self.model.layers_to_capture = list(layer_ids)",
     "+            self.model.layers_to_capture = [b + 1 for b in layer_ids]", CAPTURES),
    ("the branch", RELEASES, "elif isinstance(layer_ids, CaptureList)", "elif False",
     partial(patch_cases.captures, boundaries=[1, 4, 7])),
    ("fusion off", LOOP_CAPTURES, "+            should_allreduce_fusion = False", "+            pass",
     patch_cases.two_ranks_capture_the_sum),
    ("fusion on elsewhere", LOOP_CAPTURES, "= layer_id + 1 in layer_ids", "= True",
     patch_cases.two_ranks_capture_the_sum),
    ("the layer before the boundary", LOOP_CAPTURES, "= layer_id + 1 in layer_ids", "= layer_id in layer_ids",
     patch_cases.two_ranks_capture_the_sum),
    ("the graph's ids", GRAPHS, "model_runner." + IDS, "None\n",
     graphs),
    ("the warm-up's ids", GRAPHS, " self." + IDS, " None\n", graphs),
    ("the normed residual", RELEASES, "    residual = hidden_states\n", "    pass\n", normed),
    ("the first layer only", RELEASES, "= layer_id == 0 and getattr(", "= getattr(", normed),
    ("the draft's count", RELEASES[RELEASES.index("0.5.12") : RELEASES.index("0.5.15")],
     "len(layer_ids) if layer_ids else num_aux", "num_aux", widths),
    ("the check of tensors", RELEASES, "weights = checked(self, weights)", "checked", loader),
    ("the launch check", RELEASES, "+    @requires_wirable_draft\n", "+    # nothing\n", launch),
    ("its import", RELEASES, "+from sglang.srt.speculative.draft_wiring import requires_wirable_draft", "+", launch),
    ("the rule to 0.5.12", RELEASES[: RELEASES.index("0.5.13")], '+    @resolves_draft_ids("output"',
     '+    @resolves_draft_ids("index_unless_1"', patch_cases.ids_are_read_by_the_releases_rule),
    ("the rule", RELEASES[RELEASES.index("0.5.13") :], '+    @resolves_draft_ids("index_unless_1"',
     '+    @resolves_draft_ids("output"', patch_cases.ids_are_read_by_the_releases_rule),
    ("Kimi's setter", ["0.5.9"], "self.language_model.set_eagle3_layers_to_capture(layer_ids)", "pass", kimi),
    ("Kimi's embedding", ["0.5.9"], "return self.language_model.get_embed_and_head()", "return None, None", kimi),
    ("Kimi's head", ["0.5.9"], "self.language_model.set_embed_and_head(embed, head)", "pass", kimi),
    ("Kimi's model", ["0.5.9"], "return self.language_model.model", "return self.language_model", kimi),
]  # fmt: skip
CASES = [
    pytest.param(release, old, new, check, id=f"{lost}-{release}")
    for lost, releases, old, new, check in MUTATIONS
    for release in releases
]


@pytest.mark.slow
@pytest.mark.parametrize(("release", "old", "new", "check"), CASES)
def test_a_lost_line_is_noticed(release, old, new, check, tmp_path):
    def change(text: str) -> str:
        assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
        return text.replace(old, new)

    check(release, apply_patch(release, tmp_path / "whole"))
    with pytest.raises((AssertionError, TypeError, RuntimeError)):
        check(release, apply_patch(release, tmp_path / "mutated", change))
