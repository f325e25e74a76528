"""What happens under a ledger's lock is the draw, and nothing that could have been done
before.
"""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.privacy import CountNoise, Ledger, PrivateQuantile, _mechanisms

LEVELS = [0.5 + i / 20 for i in range(8)]


class Prepared(Ledger):
    """A ledger that must be asked when everything but the draw is done."""

    def answer(self, *args, sample, **how):
        self.calls = []

        def draw():
            with pytest.MonkeyPatch.context() as patch:
                for owner, name in (
                    (fc.Bins, "place"),
                    (PrivateQuantile, "prepare"),
                    (PrivateQuantile, "errors"),
                    (_mechanisms, "scale_of"),
                    (_mechanisms, "_noisy_max"),
                    (_mechanisms, "_measurement"),
                    (CountNoise, "of"),
                    (np, "sort"),
                    (np, "cumsum"),
                ):
                    patch.setattr(
                        owner, name, lambda *_, name=name, **__: self.calls.append(name)
                    )
                return sample()

        return super().answer(*args, sample=draw, **how)


@pytest.fixture
def ledger(tmp_path):
    book = Prepared.create(tmp_path / "ledger.db")
    book.set_budget("D", 200)
    return book


@pytest.mark.parametrize("analysis", ["curve", "paper"])
def test_a_report_of_several_levels_is_prepared_before(ledger, analysis):
    privacy = fc.Privacy(80.0, fc.Bins.uniform(0, 1, 50), analysis=analysis)
    plan = fc.plan(
        n_sites=1, n_points=50, confidence_level=LEVELS[::4], privacy=privacy
    )
    sent = fc.report(plan, np.linspace(0, 1, 50), site="A", ledger=ledger, dataset="D")
    assert len(getattr(sent.payload, "cells", LEVELS[::4])) == len(LEVELS[::4])
    assert ledger.calls == []


def test_a_private_check_is_prepared_before(ledger):
    scores = np.linspace(0, 1, 200)
    plan = fc.plan(n_sites=1, n_points=200, confidence_level=LEVELS)
    calibration = fc.calibrate(plan, [fc.report(plan, scores, site="A")])
    fc.monitoring.answer(
        calibration, scores, site="A", epsilon=4.0, ledger=ledger, dataset="D"
    )
    assert ledger.calls == []
