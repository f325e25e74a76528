"""The answer of a site to a plan."""

from plain_rounds import scores

from fedconformal.nvflare import ConformalExecutor


class Report(ConformalExecutor):
    def __init__(self, points):
        super().__init__()
        self.points = points

    def scores(self, plan, model, fl_ctx):
        return scores(fl_ctx, self.points)
