"""Site side: settings, log and answers of a site, whichever of FLARE's interfaces it is
asked through.
"""

import logging
import pkgutil
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.private.fed.simulator.simulator_const import SimulatorConstants

from fedconformal import rounds
from fedconformal.documents import Plan
from fedconformal.protocol import model_digest
from fedconformal.protocol._federation import naming_errors
from fedconformal.protocol._sum_record import SumRecord

FILE, LOG = "fedconformal.toml", "fedconformal-log"
MODEL, FAILURE = "model", "failure"
"""Fields of a message: the model beside a question, and the code that is sent instead
of an answer.
"""
NOWHERE = logging.Logger(
    "nowhere"
)  # what cannot be written to the site's own log is lost
NOWHERE.addHandler(logging.NullHandler())  # without any handler Python writes to stderr

Sent = str | rounds.Failure


class FlareSettings(rounds.Settings):
    """Content of ``local/fedconformal.toml`` in a site's workspace; everything in it
    may be left out.
    """

    scores: str | None = None
    check_scores: str | None = None


@dataclass(frozen=True)
class Home:
    """Workspace of a site, the name that it was provisioned under, and the job that
    asks it.
    """

    root: Path
    name: str
    job: str

    @classmethod
    def of(cls, fl_ctx: FLContext) -> "Home":
        """Return the workspace that a context belongs to."""
        root = Path(fl_ctx.get_workspace().get_root_dir()).resolve()
        return cls(root, fl_ctx.get_identity_name(), fl_ctx.get_job_id())

    @property
    def file(self) -> Path:
        """File of the site's settings."""
        return self.root / "local" / FILE

    def read_settings(self) -> FlareSettings:
        """Read the site's settings; ``{site}`` in a text is its name, as simulated
        sites share one file.
        """
        text = self.file.read_text(encoding="utf-8") if self.file.exists() else ""
        with naming_errors(str(self.file)):
            content: dict[str, Any] = {
                key: (
                    value.replace("{site}", self.name)
                    if isinstance(value, str)
                    else value
                )
                for key, value in tomllib.loads(text).items()
            }
            return FlareSettings(**content)

    def make_site(self, *, of_checks: bool) -> rounds.Site:
        """Return the site that answers, unless its ledger or record would be lost with
        the job.
        """
        settings = self.read_settings()
        if settings.ledger is not None:
            refuse_wiped(
                "ledger", self.file.parent / settings.ledger, self.root, self.job
            )
        site = settings.make_site(self.name, self.file.parent, of_checks=of_checks)
        if site.policy.sum_with and site.key is not None:
            record = SumRecord.of(site.policy, site.key)
            refuse_wiped("sum_record", record.path, self.root, self.job)
        return site

    def open_log(self) -> logging.Logger:
        """Return a log in a file of the site's workspace that FLARE does not stream to
        the server.

        FLARE streams its own logs, and any other file in the folder of a job's logs
        that the job names; this file is outside of it, and reaches none of FLARE's
        handlers. FLARE's console shows administrators files of a site with the suffix
        of a text file; this one has none.
        """
        log = logging.getLogger(
            f"fedconformal.nvflare.site.{str(self.root).replace('.', '_')}"
        )
        log.propagate = False
        log.setLevel(logging.INFO)
        if not log.handlers:
            log.addHandler(logging.NullHandler())
            with suppress(OSError):
                (self.root / LOG).touch(mode=0o600)
                to_file = logging.FileHandler(self.root / LOG, encoding="utf-8")
                to_file.setFormatter(
                    logging.Formatter("%(asctime)s %(levelname)s %(message)s")
                )
                log.addHandler(to_file)
        return log

    def answer(
        self,
        question: rounds.Question,
        packed: object,
        compute: Callable[[Plan], Any],
        model: Any,
        settings: Mapping[str, Any] | None = None,
    ) -> Sent:
        """Answer a question with what the site computes under a model."""
        return question.answer(
            packed,
            compute,
            lambda plan: self.make_site(of_checks=question is rounds.CHECK),
            model=model_digest(_arrays(model)) if model else None,
            settings=settings,
            log=self.open_log(),
        )


def refuse_wiped(name: str, path: Path, root: Path, job: str) -> None:
    """Refuse a file or folder that FLARE deletes: below a simulator's workspace, or
    that of POC mode.
    """
    if job == SimulatorConstants.JOB_NAME:
        wiped, when = root.parent, "the simulator empties before every run"
    else:
        from nvflare.tool.poc.poc_commands import get_poc_workspace

        try:
            wiped, when = (
                Path(get_poc_workspace()).resolve(),
                "POC mode deletes after a run",
            )
        except OSError:  # it is noted in the user's home, and there is none
            return
    if path.resolve().is_relative_to(wiped) and root.is_relative_to(wiped):
        raise ValueError(f"{name} must be outside of {wiped}, which {when}, got {path}")


def load_function(fl_ctx: FLContext, key: str) -> Any:
    """Return the function that the site itself names, as
    ``package.module:function``.
    """
    home = Home.of(fl_ctx)
    path = getattr(home.read_settings(), key)
    if path is None or ":" not in path:
        raise ValueError(
            f'{key} must be "package.module:function" in {home.file}, a method of a'
            " subclass of "
            "ConformalExecutor, or come from a training script's answer(), got"
            f" {path!r}"
        )
    return pkgutil.resolve_name(path)


def read_field(content: Shareable, name: str, *, beside: str | None = None) -> object:
    """Return the only field of a message, of any type; one other may come beside it."""
    allowed = (ReservedHeaderKey.HEADERS, beside)
    return rounds.extract_field(
        {key: value for key, value in content.items() if key not in allowed}, name
    )


def list_settings(shareable: Shareable, fl_ctx: FLContext) -> dict[str, Any]:
    """Return what the server sent beside question and model, but FLARE's own fields.

    A site's function can read it in the context; names that begin with an underscore
    are FLARE's.
    """
    peer = fl_ctx.get_peer_context()
    sources = {
        "headers": shareable.get(ReservedHeaderKey.HEADERS) or {},
        "peer": peer.get_all_public_props() if isinstance(peer, FLContext) else {},
    }
    settings: dict[str, Any] = {}
    for source, fields in sources.items():
        for name, value in fields.items():
            if not name.startswith("_"):
                settings[f"{source} {name}"] = value
    return settings


def make_answer(question: rounds.Question, sent: Sent) -> Shareable:
    """Return a site's reply: its answer, or a code."""
    failed = isinstance(sent, rounds.Failure)
    reply = make_reply(ReturnCode.EXECUTION_EXCEPTION if failed else ReturnCode.OK)
    reply[FAILURE if failed else question.answered] = int(sent) if failed else sent
    return reply


def answer_task(
    executor: Any,
    task_name: str,
    shareable: Shareable,
    fl_ctx: FLContext,
    signal: Signal,
) -> Shareable:
    """Answer a task of an executor with its own functions, the site's, or the training
    script's.
    """
    question = rounds.CHECK if task_name == rounds.CHECK.name else rounds.CALIBRATE
    key = "check_scores" if question is rounds.CHECK else "scores"
    log = NOWHERE
    try:
        home = Home.of(fl_ctx)
        log = home.open_log()
        packed = read_field(shareable, question.asked, beside=MODEL)
        parameters = shareable.get(MODEL)
        model = dict(parameters) if isinstance(parameters, Mapping) else {}
        script = None if executor.overrides(key) else _find_script(fl_ctx)
        sent: Sent
        if script is not None and getattr(home.read_settings(), key) is None:
            _HOMES[home.job, home.name] = home
            asked = FLModelUtils.to_shareable(
                FLModel(params=model, meta={question.asked: packed})
            )
            sent = _read_script(
                script.execute(task_name, asked, fl_ctx, signal), question
            )
        else:
            sent = home.answer(
                question,
                packed,
                lambda plan: getattr(executor, key)(plan, model, fl_ctx),
                model,
                list_settings(shareable, fl_ctx),
            )
    except BaseException:
        sent = rounds.log_and_mask(rounds.Failure.SITE, log)
    content = (
        f"only: {sent.meaning}"
        if isinstance(sent, rounds.Failure)
        else f"one {question.answered}"
    )
    executor.log_info(
        fl_ctx,
        f"the server receives {content} (more in {LOG} of the site's workspace)",
        False,
    )
    return make_answer(question, sent)


# -- a training script that answers through FLARE's Client API -------------------------


_HOMES: dict[tuple[str, str], Home] = {}
"""Workspaces of the sites whose scripts run in this process, by job and name."""


def answer(
    received: FLModel,
    scores: Callable[[Plan, Any], Any],
    check_scores: Callable[[Plan, Any], Any] | None = None,
) -> FLModel:
    """Answer a calibration round, or a check, in a training script that uses FLARE's
    Client API.

    The answer is the one that a `ConformalExecutor` would give: bounded by the site's
    own policy, under the name that it was provisioned under, with the report in its own
    log. An exception becomes a fixed code.

    Parameters
    ----------
    received : FLModel
        What ``flare.receive()`` returned for a task other than training.
    scores : callable
        Called with the plan and ``received.params``; returns what
        ``ConformalExecutor.scores`` returns.
    check_scores : callable, optional
        The same for new cases, on which the site checks a calibration.

    Returns
    -------
    FLModel
        For ``flare.send()``.

    Examples
    --------
    In the loop of the script, before the training:

    >>> def answer_round(flare, received, X, y):
    ...     if not flare.is_train():
    ...         cases = lambda plan, model: {"truth": y, "prediction": X @ model["w"]}
    ...         flare.send(answer(received, cases))
    """
    question = rounds.CHECK if rounds.CHECK.asked in received.meta else rounds.CALIBRATE
    compute = check_scores if question is rounds.CHECK else scores
    log = NOWHERE
    sent: Sent = rounds.Failure.SITE
    try:
        home = _find_home()
        log = home.open_log()
        if compute is None:
            raise TypeError(
                "check_scores must be a function for sites that check calibrations, got"
                " None"
            )
        model = received.params
        sent = home.answer(
            question,
            received.meta.get(question.asked),
            lambda plan: compute(plan, model),
            model,
        )
    except BaseException:
        rounds.log_and_mask(rounds.Failure.SITE, log)
    failed = isinstance(sent, rounds.Failure)
    return FLModel(
        metrics={FAILURE: int(sent)} if failed else {question.answered: sent}
    )


def _find_home() -> Home:
    """Return the workspace of the site whose training script runs, as FLARE itself, not
    the server, says.
    """
    import nvflare.client as flare

    job, name = flare.get_job_id(), flare.get_site_name()
    app = Path.cwd()  # where FLARE starts a script that has a process of its own
    if (job, name) not in _HOMES and app.parts[-2:] == (job, f"app_{name}"):
        return Home(app.parents[1].resolve(), name, job)
    return _HOMES[job, name]


def _find_script(fl_ctx: FLContext) -> Any:
    """Return FLARE's executor of the job's training script, if it has one."""
    from nvflare.app_common.executors.client_api_executor import ClientAPIExecutor

    runner = fl_ctx.get_prop(FLContextKey.RUNNER)
    found = None if runner is None else runner.find_executor(AppConstants.TASK_TRAIN)
    return found if isinstance(found, ClientAPIExecutor) else None


def _read_script(result: Shareable, question: rounds.Question) -> Sent:
    """Return the answer, or the code, that a training script sent."""
    code = result.get_return_code()
    if code != ReturnCode.OK:
        raise RuntimeError(f"the training script gave no answer: {code}")
    metrics = FLModelUtils.from_shareable(result).metrics or {}
    for failure in rounds.Failure:
        if failure == metrics.get(FAILURE):
            return failure
    if not isinstance(metrics.get(question.answered), str):
        raise TypeError(
            "the training script sent something else than an answer: where"
            " flare.is_train() is false, it must send"
            " fedconformal.nvflare.answer(received, scores)"
        )
    return str(metrics[question.answered])


def _arrays(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as arrays where they are PyTorch's tensors, which a script may
    receive.
    """
    return {
        name: value.detach().cpu().numpy() if hasattr(value, "detach") else value
        for name, value in model.items()
    }
