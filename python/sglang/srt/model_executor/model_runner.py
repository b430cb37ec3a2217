"""The states that come out of a replayed CUDA graph are the ones asked for.

Why: a graph that was captured before the ids were set replays other states than eager mode computes.
Upstream: https://github.com/sgl-project/sglang/pull/22836 set the ids before the capture (0.5.11).
Drop when: `layers/logits_processor.py` is dropped.
"""

from __future__ import annotations

from draftwire.refusal import refuse
from draftwire_overlay.srt.layers.logits_processor import require_width


class ModelRunner:
    def forward(original, self, forward_batch, *args, **kwargs):
        """Upstream's forward; the first replay in each forward mode hands on K x hidden_size wide states."""
        output = original(self, forward_batch, *args, **kwargs)
        if output.can_run_graph:
            model = getattr(self.model, "language_model", None) or self.model
            wiring = getattr(model, "aux_wiring", None)
            if wiring is not None:
                seen = self.__dict__.setdefault("aux_replays_seen", set())
                mode = forward_batch.forward_mode
                if mode not in seen and not mode.is_idle():
                    states = output.logits_output.hidden_states
                    if states is None:
                        refuse(f"expected {wiring} after a graph replay ({mode.name}), found no states")
                    require_width(states, wiring, model.config.hidden_size, f"replayed {mode.name}")
                    seen.add(mode)
        return output
