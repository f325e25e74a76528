"""What sites name in their own configuration: scores, and the trouble that a site can
be in.
"""

import logging
import os
import time
from pathlib import Path

import numpy as np

import fedconformal as fc
from fedconformal.nvflare import ConformalExecutor

SECRET = "patient 4711 has a rare disease"
LOUD = "what a site's own function writes to FLARE's log is streamed to the server"


def scores_of(site):
    return np.random.default_rng(len(site)).random(200)


def answers(plan, model, fl_ctx):
    return scores_of(fl_ctx.get_identity_name())


def raises(plan, model, fl_ctx):
    logging.getLogger("hospital").error(LOUD)
    raise RuntimeError(SECRET)


def hangs(plan, model, fl_ctx):
    """Leaves a file with its number, so that the test knows when, and whom to kill."""
    mark = Path(fl_ctx.get_workspace().get_root_dir()) / "began"
    mark.with_suffix(".part").write_text(str(os.getpid()))
    mark.with_suffix(".part").rename(mark)
    time.sleep(600)


def poses_as_north(plan, model, fl_ctx):
    """A site can run what it likes: this one answers in another's name."""
    from fedconformal.nvflare import _site

    report = fc.report(plan, answers(plan, model, fl_ctx), site="north").to_json(
        indent=None
    )
    honest = _site.make_answer
    _site.make_answer = lambda question, sent: honest(question, report)
    return answers(plan, model, fl_ctx)


class Simulated(ConformalExecutor):
    """The code of a job, at sites that let it in."""

    def scores(self, plan, model, fl_ctx):
        """Return the scores of the site."""
        return answers(plan, model, fl_ctx)
