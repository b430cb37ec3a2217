"""A target's new weights from disk do not go into its draft.

Why: /update_weights_from_disk loads the named checkpoint into the target and into the draft, which has its own.
    Tensors of the same name replace the draft's (acceptance falls, no error); a reduced draft vocabulary
    ends the server on an assertion.
Upstream: none; 0.5.21 gave other update calls a selector, this one loads into both.
Drop when: `update_weights_from_disk` leaves a draft alone whose checkpoint is not the one named.
"""

from __future__ import annotations

import logging

logger = logging.getLogger("draftwire")


class SchedulerWeightUpdaterManager:
    def update_weights_from_disk(original, self, recv_req):
        """Upstream's, for the target alone where the draft is an EAGLE-3 draft, which has a checkpoint of its own."""
        draft = self.draft_worker
        if draft is None or not draft.target_worker.model_runner.spec_algorithm.is_eagle3():
            return original(self, recv_req)
        self.draft_worker = None
        try:
            output = original(self, recv_req)
        finally:
            self.draft_worker = draft
        logger.info("draftwire: %s went into the target; the draft keeps its own weights", recv_req.model_path)
        return output
