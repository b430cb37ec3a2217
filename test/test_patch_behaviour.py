"""Patched releases capture the states that were asked for: their own functions, cut out and run over fakes."""

from __future__ import annotations

import patch_cases
import pytest
from patched import LOOP_CAPTURES, RELEASES, apply_patch, installed_release

BOUNDARIES = ([0, 3], [0, 3, 6], [0, 3, 6, 9], [2, 5, 8], [1, 4, 7])
EVERY = pytest.mark.parametrize(
    "release", [pytest.param(r, marks=[] if r == installed_release() else pytest.mark.slow) for r in RELEASES]
)
TO_0_5_10 = RELEASES[: RELEASES.index("0.5.11")]


@pytest.fixture
def patched(release, tmp_path):
    return apply_patch(release, tmp_path)


@EVERY
def test_the_states_asked_for_are_captured(release, patched):
    for boundaries in BOUNDARIES:
        patch_cases.captures(release, patched, boundaries)


@EVERY
def test_ids_are_read_by_the_releases_own_rule(release, patched):
    patch_cases.ids_are_read_by_the_releases_rule(release, patched)


@EVERY
def test_drafts_are_checked_at_launch(release, patched):
    patch_cases.drafts_are_checked_at_launch(patched)


@EVERY
def test_other_lists_are_upstreams_own(release, patched):
    patch_cases.leaves_plain_ids_alone(release, patched)


@EVERY
def test_the_embedding_is_whole_on_every_rank(release, patched):
    patch_cases.embedding_is_not_gathered(release, patched)


@pytest.mark.slow
@pytest.mark.parametrize("release", LOOP_CAPTURES)
def test_two_ranks_capture_the_reduced_sum(release, patched):
    patch_cases.two_ranks_capture_the_sum(release, patched)


@pytest.mark.slow
@pytest.mark.parametrize("release", TO_0_5_10)
def test_graphs_capture_the_drafts_ids(release, patched):
    patch_cases.graphs_capture_the_drafts_ids(patched)


@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.5.9"])
def test_kimi_wrapper_answers_the_eagle_worker(release, patched):
    patch_cases.kimi_starts(patched)


@EVERY
def test_the_first_layers_residual_is_normed_where_the_draft_was_trained_so(release, patched):
    patch_cases.first_layer_keeps_the_normed_state(patched)


@EVERY
def test_every_tensor_of_a_draft_is_checked(release, patched):
    patch_cases.stray_tensors_reach_the_check(patched)


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES[RELEASES.index("0.5.12") : RELEASES.index("0.5.15")])
def test_extend_buffers_are_as_wide_as_the_states(release, patched):
    patch_cases.extend_buffers_are_as_wide_as_the_states(patched)
