"""The checks, one a file. A check's name is a statement that is true when all is well; its docstring is its page.

Each module has `check(case)`, which answers with one finding or a list of them.
"""

from __future__ import annotations

import importlib
from types import ModuleType

# In the order in which a person would look: the wiring first, then the draft's own files, then the launch.
NAMES = (
    "algorithm_is_eagle3",
    "draft_class_served",
    "target_captures",
    "ids_are_read",
    "ids_ascending",
    "ids_mean_one_thing",
    "boundaries_reachable",
    "fc_width",
    "ids_before_graphs",
    "states_reduced",
    "two_batch_overlap_off",
    "one_pipeline_stage",
    "launch_serves_this_pair",
    "draft_fits_target",
    "norms_match_flags",
    "norms_served",
    "fed_back_state_said",
    "tensors_known",
    "tensors_complete",
    "shapes_match_config",
    "weights_are_numbers",
    "head_dim_served",
    "head_not_tied",
    "vocabulary_map_fits",
    "embedding_is_targets",
    "rope_is_read",
    "rope_matches_target",
    "rope_magnitude_kept",
    "positions_reach",
    "window_passed",
    "quantization_is_own",
    "flags_kept",
    "tree_fits_backend",
    "disaggregation_carries_states",
    "plugin_allowed",
    "release_tested",
    "acceptance_not_simulated",
)
# A wiring is only called right where each of these has looked.
WIRING = ("ids_are_read", "ids_ascending", "ids_mean_one_thing", "boundaries_reachable", "fc_width")


def load(name: str) -> ModuleType:
    """A check's module. Raises KeyError where there is no such check."""
    if name not in NAMES:
        raise KeyError(name)
    return importlib.import_module(f"draftwire.checks.{name}")
