"""Site side: an executor that answers a plan, and discloses nothing else."""

import logging
from typing import Any

from nvflare.apis.executor import Executor
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from fedconformal.documents import Plan
from fedconformal.nvflare import _messages
from fedconformal.nvflare._messages import CALIBRATE, CHECK, Question, model_digest
from fedconformal.nvflare._settings import LOG, Settings, leave_out_of_jobs, own_log
from fedconformal.rounds import Failure, answer, answer_check, log_and_mask


class ConformalExecutor(Executor):
    """Executor that answers a plan with one report, under the name that the site was provisioned under.

    The report is written to the file ``fedconformal-log`` of the site's workspace before it leaves. If
    anything fails, a fixed code leaves instead (``Failure``), and the exception stays in that file, which
    FLARE does not stream to the server.

    A job with code of its own subclasses it and overrides ``scores``, and ``check_scores`` where calibrations
    are to be checked. A site that accepts no such code allows this class alone, and names its own functions
    in ``local/fedconformal.toml``: ``scores = "package.module:function"``. The same file may hold the site's
    policy, ledger and key, which no job can change.

    Examples
    --------
    >>> import numpy as np
    >>> class Scores(ConformalExecutor):
    ...     def scores(self, plan, model, fl_ctx):
    ...         X, y = np.ones((80, 3)), np.arange(80.0)  # this site's calibration cases
    ...         return np.abs(y - X @ model["w"])
    >>> Scores().scores(None, {"w": np.zeros(3)}, None)[:3]
    array([0., 1., 2.])
    """

    __module__ = "fedconformal.nvflare"  # the path in job configurations and in a site's class_allow_list

    def scores(self, plan: Plan, model: dict[str, Any], fl_ctx: FLContext) -> Any:
        """Compute the calibration scores of this site; for a plan with groups, a pair of scores and labels.

        Parameters
        ----------
        plan : Plan
            The plan to be answered.
        model : dict
            The parameters of the model that came with the plan, by their names; empty if none came.
        fl_ctx : FLContext
            As FLARE hands it to executors; ``fl_ctx.get_identity_name()`` is the site's name.

        Returns
        -------
        array_like
            The scores. Unless a subclass overrides this, those of the function that the site's own
            configuration names, called with the same three arguments.
        """
        return Settings.read(fl_ctx).function("scores")(plan, model, fl_ctx)

    def check_scores(self, plan: Plan, model: dict[str, Any], fl_ctx: FLContext) -> Any:
        """Compute the scores of new cases, on which the site checks a calibration: a count of them leaves.

        Parameters
        ----------
        plan, model, fl_ctx : Plan, dict and FLContext
            As for ``scores``.

        Returns
        -------
        array_like
            As for ``scores``, by the function ``check_scores`` of the site's own configuration.
        """
        return Settings.read(fl_ctx).function("check_scores")(plan, model, fl_ctx)

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """Answer a task; an exception becomes a fixed code.

        Parameters
        ----------
        task_name : str
            The name of the task.
        shareable : Shareable
            Its data: the plan, or the calibration to check; perhaps with a model.
        fl_ctx : FLContext
            The site's context.
        abort_signal : Signal
            Ignored: an answer that was paid for is sent.

        Returns
        -------
        Shareable
            The answer, or a code.
        """
        question = CHECK if task_name == CHECK.task else CALIBRATE
        log = logging.Logger("nowhere")  # no handler: what cannot be written to the site's own log is lost
        try:
            log = own_log(fl_ctx)
            sent = self._answer(question, shareable, fl_ctx, log)
        except BaseException:
            sent = log_and_mask(Failure.SITE, log)
        words = f"told only: {sent.meaning}" if isinstance(sent, Failure) else f"sent one {question.answered}"
        self.log_info(fl_ctx, f"the server was {words} ({LOG} in this site's workspace has more)", False)
        return question.reply(sent)

    def add_to_fed_job(self, job: Any, ctx: Any, **kwargs: Any) -> None:
        """Let FLARE's job API add this executor, by default for the tasks of both rounds.

        Parameters
        ----------
        job, ctx : FedJob and JobCtx
            As FLARE calls it.
        **kwargs
            ``tasks``, a list of names of tasks.
        """
        leave_out_of_jobs(job)
        super().add_to_fed_job(job, ctx, **{"tasks": [CALIBRATE.task, CHECK.task], **kwargs})

    def _answer(
        self, question: Question, shareable: Shareable, fl_ctx: FLContext, log: logging.Logger
    ) -> str | Failure:
        packed, model = question.read_question(shareable), _messages.read_model(shareable)
        name = fl_ctx.get_identity_name()
        digest = model_digest(model) if model else None
        if question is CALIBRATE:
            return answer(
                packed,
                lambda plan: self.scores(plan, model, fl_ctx),
                lambda plan: Settings.read(fl_ctx).site(name),
                model=digest,
                log=log,
            )
        return answer_check(
            packed,
            lambda plan: self.check_scores(plan, model, fl_ctx),
            lambda plan: Settings.read(fl_ctx).site(name, of_checks=True),
            epsilon=Settings.read(fl_ctx).check_epsilon,
            model=digest,
            log=log,
        )
