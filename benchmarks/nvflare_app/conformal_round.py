"""A calibration round, timed and weighed in the same way; the plan is there before."""

from pathlib import Path

from plain_rounds import TIMEOUT, PlainRound

import fedconformal as fc
from fedconformal.nvflare import calibrate


class ConformalRound(PlainRound):
    def start_controller(self, fl_ctx):
        if self.kind == "ours":
            self.plan = fc.plan(n_sites=self.sites, n_points=self.points)
        else:
            name = {"counts": "counts", "masked": "masked-0"}[self.kind]
            self.plan = fc.Plan.read(
                Path(self.output).parent / "masked" / f"{name}.json"
            )

    def ask(self, abort_signal, fl_ctx):
        found = calibrate(
            self, self.plan, fl_ctx, timeout=TIMEOUT, abort_signal=abort_signal
        )
        assert found.n_answers == self.sites
