"""Site side: an executor that answers a plan, and discloses nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

if TYPE_CHECKING:
    from fedconformal.documents import Plan


def leave_out_of_jobs(job: Any) -> None:
    """Keep FLARE's job API from copying this package's files into a job, which would
    make it custom code.
    """
    job.set_app_packages(sorted({*job.job.app_packages, "fedconformal"}))


class ConformalExecutor(Executor):
    """Executor that answers a plan with one report, under the name that the site was
    provisioned under.

    The report is written to the file ``fedconformal-log`` of the site's workspace
    before it leaves. If anything fails, a fixed code leaves instead (``Failure``), and
    the exception stays in that file, which FLARE does not stream to the server.

    A job with code of its own subclasses it and overrides ``scores``, and
    ``check_scores`` where calibrations are to be checked. A site that accepts no such
    code allows this class alone, and names its own functions in
    ``local/fedconformal.toml``: ``scores = "package.module:function"``. Where neither
    is so, the job's training script is asked, and answers with
    ``fedconformal.nvflare.answer``. The same file may hold the site's policy, ledger
    and key, which no job can change.

    Examples
    --------
    >>> import numpy as np
    >>> class Scores(ConformalExecutor):
    ...     def scores(self, plan, model, fl_ctx):
    ...         X, y = np.ones((80, 3)), np.arange(
    ...             80.0
    ...         )  # this site's calibration cases
    ...         return {"truth": y, "prediction": X @ model["w"]}
    >>> Scores().scores(None, {"w": np.zeros(3)}, None)["prediction"][:3]
    array([0., 0., 0.])
    """

    __module__ = (  # the path in job configurations and in a site's class_allow_list
        "fedconformal.nvflare"
    )

    def scores(self, plan: Plan, model: dict[str, Any], fl_ctx: FLContext) -> Any:
        """Compute the calibration scores of this site, or the truth and predictions
        that they are made of.

        Parameters
        ----------
        plan : Plan
            The plan to be answered.
        model : dict
            The parameters of the model that came with the plan, by their names; empty
            if none came.
        fl_ctx : FLContext
            As FLARE hands it to executors; ``fl_ctx.get_identity_name()`` is the site's
            name.

        Returns
        -------
        mapping or array_like
            ``{"truth": ..., "prediction": ...}``, of which the plan's score is
            computed, with ``groups`` for a plan with groups; or the scores themselves,
            for a plan that fixes no score. Unless a subclass overrides this, what the
            function returns that the site's own configuration names, called with the
            same three arguments.
        """
        from fedconformal.nvflare import _site

        return _site.load_function(fl_ctx, "scores")(plan, model, fl_ctx)

    def check_scores(self, plan: Plan, model: dict[str, Any], fl_ctx: FLContext) -> Any:
        """Compute the same of new cases, on which the site checks a calibration: a
        count of them leaves.

        Parameters
        ----------
        plan, model, fl_ctx : Plan, dict and FLContext
            As for ``scores``.

        Returns
        -------
        mapping or array_like
            As for ``scores``, by the function ``check_scores`` of the site's own
            configuration.
        """
        from fedconformal.nvflare import _site

        return _site.load_function(fl_ctx, "check_scores")(plan, model, fl_ctx)

    def execute(
        self,
        task_name: str,
        shareable: Shareable,
        fl_ctx: FLContext,
        abort_signal: Signal,
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
            Handed to the training script, if it is asked; otherwise an answer that was
            paid for is sent.

        Returns
        -------
        Shareable
            The answer, or a code.
        """
        try:  # the mathematics is loaded when there is something to answer
            from fedconformal.nvflare import _site

            return _site.answer_task(self, task_name, shareable, fl_ctx, abort_signal)
        except BaseException:  # not even a broken installation says more than this
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)

    def overrides(self, name: str) -> bool:
        """Return whether a subclass has a function of the job's own.

        Parameters
        ----------
        name : {"scores", "check_scores"}
            Name of the function.

        Returns
        -------
        bool
        """
        return getattr(type(self), name) is not getattr(ConformalExecutor, name)

    def add_to_fed_job(self, job: Any, ctx: Any, **kwargs: Any) -> None:
        """Let FLARE's job API add this executor, by default for the tasks of both
        rounds.

        Parameters
        ----------
        job, ctx : FedJob and JobCtx
            As FLARE calls it.
        **kwargs
            ``tasks``, a list of names of tasks; others are left out.
        """
        from fedconformal import rounds

        leave_out_of_jobs(job)
        both = [rounds.CALIBRATE.name, rounds.CHECK.name]
        super().add_to_fed_job(job, ctx, tasks=kwargs.get("tasks") or both)
