"""The import name under which SGLang looks for its kernel package, answered in PyTorch.

A module file, not a package directory: upstream's own distribution installs `sgl_kernel/`, and where both lie in one
site-packages the directory is found first and no file has two owners. Importing this file where that distribution is
installed is refused with an ImportError: half of each would be in use.
"""

from draftwire_cpu import attention
from draftwire_cpu.cache_rows import copy_all_layer_kv_cache_cpu
from draftwire_cpu.installed import refuse_beside_upstream_build
from draftwire_cpu.slots import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    build_draft_decode_metadata_cpu,
)
from draftwire_cpu.tokens import fill_accept_out_cache_loc_cpu, fill_bonus_tokens_cpu, rotate_input_ids_cpu
from draftwire_cpu.tree import build_tree_kernel_efficient_cpu
from draftwire_cpu.verify import verify_tree_greedy_cpu

refuse_beside_upstream_build()
attention.register()

PROVIDED_BY = "draftwire-cpu"
__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]
