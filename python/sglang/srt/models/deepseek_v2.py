"""Capture by boundary, the embedding output included, for DeepSeek-V2/V3 and Kimi-K2/K2.5.

Why: the setter sees a bare list and guesses its convention from the first id; [-1, 2, 30] is captured as
    two states of three, [2, 30, 58] as other layers than before 0.5.13.
Upstream: https://github.com/sgl-project/sglang/pull/25454 changed the guess.
Drop when: `set_eagle3_layers_to_capture` takes boundaries, or refuses ids that it cannot capture.
"""

from __future__ import annotations

import logging

from draftwire.refusal import refuse

logger = logging.getLogger("draftwire")


class DeepseekV2ForCausalLM:
    def set_eagle3_layers_to_capture(original, self, layer_ids=None):
        """Set `model.layers_to_capture` to the boundaries that the draft's config was resolved to.

        A list that did not come from a draft's config is upstream's own business.
        """
        wiring = getattr(layer_ids, "wiring", None)
        if wiring is None:
            return original(self, layer_ids)
        original(self, list(wiring.ids) if wiring.rule == "index_unless_1" else list(wiring.boundaries))
        if not self.capture_aux_hidden_states:
            return None
        captured = list(self.model.layers_to_capture)
        if wiring.rule == "index_unless_1" and captured != list(wiring.boundaries):
            refuse(
                f"expected this release to read {list(wiring.ids)} as boundaries {list(wiring.boundaries)}, found "
                f"{captured} in {type(self).__name__}; write eagle_config.aux_boundaries into the draft's config"
            )
        self.model.layers_to_capture = list(wiring.boundaries)
        self.aux_wiring = self.logits_processor.aux_wiring = wiring
        self.logits_processor.aux_hidden_size = layer_ids.hidden_size
        if _is_first_rank():
            logger.info("draftwire: %s", wiring)


def _is_first_rank() -> bool:
    from torch import distributed

    return not distributed.is_initialized() or distributed.get_rank() == 0
