"""A calibration round, timed and weighed in the same way; the plan is there before."""

from plain_rounds import TIMEOUT, PlainRound

import fedconformal as fc
from fedconformal.nvflare import calibrate


class ConformalRound(PlainRound):
    def start_controller(self, fl_ctx):
        self.plan = fc.plan(n_sites=self.sites, n_points=self.points)

    def ask(self, abort_signal, fl_ctx):
        found = calibrate(self, self.plan, fl_ctx, timeout=TIMEOUT, abort_signal=abort_signal)
        assert found.n_answers == self.sites
