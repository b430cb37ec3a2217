"""Loaded by SGLang beside the overlay, for tests: writes down what a draft is fed and what it answers, and exchanges
the draft of a running server, so that a hundred drafts need one engine.

In DRAFT_PROBE: `swap` holds the path of the next draft; `swapped` appears when it is loaded, `refused` when it was
refused, with the line. Each forward of the draft is saved as `call-N.pt`.
"""

import os
import sys
from pathlib import Path


def activate():
    scheduler = sys.modules.get("sglang.srt.managers.scheduler")
    if scheduler is None or "DRAFT_PROBE" not in os.environ:
        return
    folder = Path(os.environ["DRAFT_PROBE"])
    process = scheduler.Scheduler.process_input_requests

    def process_input_requests(self, requests):
        if (folder / "swap").exists():
            exchange(self, folder)
        return process(self, requests)

    scheduler.Scheduler.process_input_requests = process_input_requests
    from sglang.srt.models.kimi_k25_eagle3 import Eagle3DeepseekV2ForCausalLM
    from sglang.srt.models.llama_eagle3 import LlamaForCausalLMEagle3

    for draft in (LlamaForCausalLMEagle3, Eagle3DeepseekV2ForCausalLM):
        draft.forward = recorded(draft.forward, folder)


def recorded(forward, folder):
    import torch

    def record(self, input_ids, positions, forward_batch, *args, **kwargs):
        call = {
            "tokens": input_ids.clone(),
            "positions": positions.clone(),
            "hidden": forward_batch.spec_info.hidden_states.clone(),
        }
        answer = forward(self, input_ids, positions, forward_batch, *args, **kwargs)
        call["logits"] = answer.next_token_logits.clone()
        count = len(list(folder.glob("call-*.pt")))
        torch.save(call, folder / f"call-{count:04d}.pt")
        return answer

    return record


def exchange(scheduler, folder):
    """Load the draft that `swap` names with upstream's own loader, into the runner of the one that serves."""
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.layers.moe.utils import draft_model_build_scope
    from sglang.srt.speculative.spec_utils import draft_pp_context, draft_tp_context

    worker = scheduler.draft_worker.draft_worker
    path = (folder / "swap").read_text()
    (folder / "swap").unlink()
    try:
        config = ModelConfig.from_server_args(scheduler.server_args, model_path=path, is_draft_model=True)
        worker.draft_runner.model_config = config
        with draft_tp_context(worker.parallel_layout), draft_pp_context(), draft_model_build_scope():
            worker.draft_runner.load_model()
        worker.hot_token_id = None
        worker.init_lm_head()
        ids = config.hf_config.eagle_config["eagle_aux_hidden_state_layer_ids"]
        worker.target_worker.model_runner.model.set_eagle3_layers_to_capture(ids)
    except (SystemExit, Exception) as error:
        (folder / "refused").write_text(f"{type(error).__name__}: {error}")
        return
    (folder / "swapped").write_text(path)
