"""What a site answers a plan with: the scores of its calibration images under the trained model."""

import task

from fedconformal.nvflare import ConformalExecutor
from fedconformal.scores import LAC


class DigitsExecutor(ConformalExecutor):
    """How badly the model fits each calibration image: 1 - the probability of its true digit."""

    def __init__(self, sites):
        super().__init__()
        self.sites = sites  # FLARE writes this into the job: an argument is kept under its own name

    def scores(self, plan, model, fl_ctx):
        """One score for each image."""
        _, (X, y), _ = task.load(fl_ctx.get_identity_name(), self.sites)
        return LAC().score(y, task.probabilities(model, X))
