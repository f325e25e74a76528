"""Site side: an executor that answers a plan, and discloses nothing else."""

import logging
import pkgutil
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply
from nvflare.apis.signal import Signal

from fedconformal import rounds
from fedconformal.documents import Plan
from fedconformal.protocol import model_digest
from fedconformal.protocol._federation import naming_errors

FILE, LOG = "fedconformal.toml", "fedconformal-log"
MODEL, FAILURE = "model", "failure"
"""Fields of a message: the model beside a question, and the code that is sent instead of an answer."""


class FlareSettings(rounds.Settings):
    """Content of ``local/fedconformal.toml`` in a site's workspace; everything in it may be left out."""

    scores: str | None = None
    check_scores: str | None = None


def _read_settings(fl_ctx: FLContext) -> tuple[Path, FlareSettings]:
    """Return the folder ``local`` of the site that a context belongs to, and the settings in it."""
    folder = Path(fl_ctx.get_workspace().get_site_config_dir())
    file = folder / FILE
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    with naming_errors(str(file)):
        return folder, FlareSettings(**tomllib.loads(text))


def _load_function(fl_ctx: FLContext, key: str) -> Any:
    """Return the function that the site itself names, as ``package.module:function``."""
    folder, settings = _read_settings(fl_ctx)
    path = getattr(settings, key)
    if path is None or ":" not in path:
        raise ValueError(
            f'{key} must be "package.module:function" in {folder / FILE}, or a method of a subclass of '
            f"ConformalExecutor, got {path!r}"
        )
    return pkgutil.resolve_name(path)


def read_field(content: Shareable, name: str, *, beside: str | None = None) -> object:
    """Return the only field of a message, of any type; one other may come beside it."""
    allowed = (ReservedHeaderKey.HEADERS, beside)
    return rounds.extract_field({key: value for key, value in content.items() if key not in allowed}, name)


def make_answer(question: rounds.Question, sent: str | rounds.Failure) -> Shareable:
    """Return a site's reply: its answer, or a code."""
    failed = isinstance(sent, rounds.Failure)
    reply = make_reply(ReturnCode.EXECUTION_EXCEPTION if failed else ReturnCode.OK)
    reply[FAILURE if failed else question.answered] = int(sent) if failed else sent
    return reply


def open_log(fl_ctx: FLContext) -> logging.Logger:
    """Return a log in a file of the site's workspace that FLARE does not stream to the server.

    FLARE streams its own logs, and any other file in the folder of a job's logs that the job names; this file
    is outside of it, and reaches none of FLARE's handlers. FLARE's console shows administrators files of a
    site with the suffix of a text file; this one has none.
    """
    root = Path(fl_ctx.get_workspace().get_root_dir()).resolve()
    log = logging.getLogger(f"fedconformal.nvflare.site.{str(root).replace('.', '_')}")
    log.propagate = False
    log.setLevel(logging.INFO)
    if not log.handlers:
        log.addHandler(logging.NullHandler())
        with suppress(OSError):
            (root / LOG).touch(mode=0o600)
            to_file = logging.FileHandler(root / LOG, encoding="utf-8")
            to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
            log.addHandler(to_file)
    return log


def leave_out_of_jobs(job: Any) -> None:
    """Keep FLARE's job API from copying this package's files into a job, which would make it custom code."""
    job.set_app_packages(sorted({*job.job.app_packages, "fedconformal"}))


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
        return _load_function(fl_ctx, "scores")(plan, model, fl_ctx)

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
        return _load_function(fl_ctx, "check_scores")(plan, model, fl_ctx)

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
        question = rounds.CHECK if task_name == rounds.CHECK.name else rounds.CALIBRATE
        log = logging.Logger("nowhere")  # no handler: what cannot be written to the site's own log is lost

        def find_site(plan: Plan) -> rounds.Site:
            folder, settings = _read_settings(fl_ctx)
            return settings.make_site(fl_ctx.get_identity_name(), folder, of_checks=question is rounds.CHECK)

        try:
            log = open_log(fl_ctx)
            parameters = shareable.get(MODEL)
            model = dict(parameters) if isinstance(parameters, Mapping) else {}
            compute = self.check_scores if question is rounds.CHECK else self.scores
            sent = question.answer(
                read_field(shareable, question.asked, beside=MODEL),
                lambda plan: compute(plan, model, fl_ctx),
                find_site,
                model=model_digest(model) if model else None,
                log=log,
            )
        except BaseException:
            sent = rounds.log_and_mask(rounds.Failure.SITE, log)
        content = f"only: {sent.meaning}" if isinstance(sent, rounds.Failure) else f"one {question.answered}"
        self.log_info(fl_ctx, f"the server receives {content} (more in {LOG} of the site's workspace)", False)
        return make_answer(question, sent)

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
        super().add_to_fed_job(job, ctx, **{"tasks": [rounds.CALIBRATE.name, rounds.CHECK.name], **kwargs})
