"""What a site answers a plan with: the scores of its images under the trained model."""

import task

from fedconformal.nvflare import ConformalExecutor
from fedconformal.scores import LAC


class DigitsExecutor(ConformalExecutor):
    """How badly the model fits each image: 1 - the probability of its true digit."""

    def __init__(self, sites):
        super().__init__()
        self.sites = sites  # FLARE writes this into the job: an argument is kept under its own name

    def scores(self, plan, model, fl_ctx):
        """One score for each calibration image."""
        _, (X, y), _ = task.load(fl_ctx.get_identity_name(), self.sites)
        return LAC().score(y, task.probabilities(model, X))

    def check_scores(self, plan, model, fl_ctx):
        """The same for images that were never used, to look at the coverage."""
        _, _, (X, y) = task.load(fl_ctx.get_identity_name(), self.sites)
        return LAC().score(y, task.probabilities(model, X))
