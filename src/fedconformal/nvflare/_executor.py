"""Site side: an executor that answers a plan, and discloses nothing else."""

import logging
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from nvflare.apis.executor import Executor
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from fedconformal._text import listed, quoted
from fedconformal.documents import Plan
from fedconformal.nvflare import _messages
from fedconformal.nvflare._messages import CALIBRATE, CHECK, Question, model_digest
from fedconformal.privacy import Ledger
from fedconformal.protocol import SitePolicy
from fedconformal.rounds import Failure, Site, answer, answer_check, log_and_mask, read_key

FILE, LOG = "fedconformal.toml", "fedconformal-log"
_NUMBER = "check_epsilon"
_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class Settings:
    """Content of ``local/fedconformal.toml`` in a site's workspace; everything in it may be left out."""

    folder: Path
    scores: str | None = None
    check_scores: str | None = None
    policy: str | None = None
    ledger: str | None = None
    dataset: str | None = None
    check_dataset: str | None = None
    check_epsilon: float | None = None
    signing_key: str | None = None

    @classmethod
    def read(cls, fl_ctx: FLContext) -> Self:
        """Read the settings of the site that a context belongs to."""
        folder = Path(fl_ctx.get_workspace().get_site_config_dir())
        file = folder / FILE
        settings = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        known = [field.name for field in fields(cls) if field.name != "folder"]
        if unknown := set(settings) - set(known):
            raise ValueError(f"{file} may hold {listed(known)}, got {quoted(sorted(unknown))}")
        for name, value in settings.items():
            kind = int | float if name == _NUMBER else str
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ValueError(f"{file}: {name} must be a {'number' if name == _NUMBER else 'text'}")
        return cls(folder, **settings)

    def site(self, name: str, *, of_checks: bool = False) -> Site:
        """Return the site that answers, under the name that it was provisioned under."""
        return Site(
            name,
            None if self.signing_key is None else read_key(self.folder / self.signing_key),
            None if self.ledger is None else Ledger(self.folder / self.ledger),
            self.check_dataset if of_checks else self.dataset,
            None if self.policy is None else SitePolicy.read(self.folder / self.policy),
            self.check_epsilon,
        )

    def function(self, key: str) -> Callable[..., Any]:
        """Return the function that the site itself names, as ``package.module:function``."""
        path = getattr(self, key)
        if path is None:
            raise ValueError(
                f"no {key}: subclass ConformalExecutor, or name a function in {self.folder / FILE}, "
                f'{key} = "package.module:function"'
            )
        module, separator, name = path.partition(":")
        if not separator:
            raise ValueError(f'{key} must be "package.module:function", got {path!r}')
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function


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
    packages = job.job.app_packages
    if _PACKAGE not in packages:
        job.set_app_packages([*packages, _PACKAGE])


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
            log = open_log(fl_ctx)
            sent = self._answer(question, shareable, fl_ctx, log)
        except BaseException:
            sent = log_and_mask(Failure.SITE, log)
        content = f"only: {sent.meaning}" if isinstance(sent, Failure) else f"one {question.answered}"
        self.log_info(
            fl_ctx, f"the server receives {content} ({LOG} in the site's workspace has more)", False
        )
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
        name, is_check = fl_ctx.get_identity_name(), question is CHECK
        compute = self.check_scores if is_check else self.scores
        return (answer_check if is_check else answer)(
            packed,
            lambda plan: compute(plan, model, fl_ctx),
            lambda plan: Settings.read(fl_ctx).site(name, of_checks=is_check),
            model=model_digest(model) if model else None,
            log=log,
        )
