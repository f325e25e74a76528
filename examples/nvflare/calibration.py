"""Answer of a site to a plan: the scores of its images under the trained model."""

import task

from fedconformal.nvflare import ConformalExecutor
from fedconformal.scores import LAC


class DigitsExecutor(ConformalExecutor):
    """Executor that scores each image by 1 - the probability of its true digit."""

    def __init__(self, sites):
        super().__init__()
        self.sites = sites  # FLARE writes this into the job: an argument is kept under its own name

    def scores(self, plan, model, fl_ctx):
        """Score each calibration image."""
        _, (X, y), _ = task.load(fl_ctx.get_identity_name(), self.sites)
        return LAC().score(y, task.probabilities(model, X))

    def check_scores(self, plan, model, fl_ctx):
        """Score images that were never used, to check the coverage."""
        _, _, (X, y) = task.load(fl_ctx.get_identity_name(), self.sites)
        return LAC().score(y, task.probabilities(model, X))
