"""Server side: ask every site of the job once, and calibrate, or assess, with the sites that answered."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.app_common.abstract.model import ModelLearnable, ModelLearnableKey
from nvflare.app_common.app_constant import AppConstants
from nvflare.job_config.api import FedJob
from nvflare.recipe.spec import Recipe

from fedconformal import rounds
from fedconformal._files import write_text
from fedconformal.documents import Calibration, CalibrationView, Plan
from fedconformal.nvflare._executor import FAILURE, MODEL, ConformalExecutor, leave_out_of_jobs, read_field
from fedconformal.protocol import model_digest

if TYPE_CHECKING:
    from fedconformal.monitoring import Assessment

log = logging.getLogger("fedconformal.nvflare")

CALIBRATION, REPORTS, CHECKED = "calibration.json", "reports", "check.txt"

Model = Mapping[str, Any]
"""Parameters of a model by their names, as in FLARE's ``FLModel.params``."""

_CODES = frozenset(value for name, value in vars(ReturnCode).items() if name.isupper())
# FLARE takes text in braces for a variable. Control characters, which JSON escapes, stand for them in a job.
_TO_JOB, _FROM_JOB = str.maketrans("{}", "\x02\x03"), str.maketrans("\x02\x03", "{}")


class RoundAbortedError(RuntimeError):
    """The job was aborted during the round; reports that had come in are in the folder of reports."""


def calibrate(
    controller: Controller,
    plan: Plan,
    fl_ctx: FLContext,
    *,
    model: Model | None = None,
    timeout: float = 300.0,
    abort_signal: Signal | None = None,
    on_refused: Literal["raise", "skip"] = "skip",
    reports: str | Path | None = None,
    sites: Collection[str] | None = None,
) -> Calibration:
    """Ask every site of the job for its report, once, and turn the reports into a Calibration.

    A site that fails, hangs or is not connected counts as missing, and the votes are solved again for the
    sites that answered. A site answers under the name that it was provisioned under and no other. The result
    is the same, byte for byte, as that of ``fedconformal.calibrate`` for the same reports.

    Parameters
    ----------
    controller : Controller
        FLARE's controller that asks, within its ``control_flow``; also a ``ModelController``.
    plan : Plan
        The plan to be answered.
    fl_ctx : FLContext
        As FLARE hands it to ``control_flow``.
    model : mapping, optional
        The parameters of the model by their names, for sites that need it to compute their scores.
    timeout : float
        Seconds until a site that has not answered counts as missing; rounded up to whole seconds.
    abort_signal : Signal, optional
        As FLARE hands it to ``control_flow``: aborting the job ends the round.
    on_refused : {"skip", "raise"}
        Skip reports that do not answer the plan and list them in the calibration, or raise
        RefusedReportsError.
    reports : str or Path, optional
        A folder in which reports are kept as they arrive. Called again with the same folder and plan, only
        sites whose answers are not in it are asked, and nobody once the round is complete.
    sites : collection of str, optional
        The names of the sites to ask; all of the job's by default.

    Returns
    -------
    Calibration
        The thresholds, and the missing sites.

    Raises
    ------
    RoundAbortedError
        If the job was aborted before the round was over.

    Examples
    --------
    In the ``control_flow`` of a controller, which gets ``fl_ctx``, with three sites of 80 cases each:

    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=3, n_points=80)
    >>> calibration = calibrate(controller, plan, fl_ctx, timeout=60)
    >>> calibration.n_answers, calibration.missing
    (3, ())
    """
    rounds.check_options(timeout, on_refused=on_refused)
    digest = model_digest(model) if model else None
    folder = None if reports is None else rounds.Folder(reports, plan, model=digest)
    nodes = _select_sites(fl_ctx, sites)
    collection = rounds.ReportCollection(plan, nodes, engine="FLARE", log=log, folder=folder)
    _ask(controller, collection, model, fl_ctx, timeout, abort_signal)
    return collection.calibrate(timeout=timeout, on_refused=on_refused)


def check(
    controller: Controller,
    calibration: Calibration | CalibrationView,
    fl_ctx: FLContext,
    *,
    model: Model | None = None,
    timeout: float = 300.0,
    abort_signal: Signal | None = None,
    sites: Collection[str] | None = None,
    period: str | None = None,
) -> Assessment:
    """Ask every site of the job for the number of its new cases that a calibration covers.

    Sites whose executor has ``check_scores`` verify the calibration and send one count for each level, with
    noise if they choose so; the others send a code. The log names the sites that did not answer.

    Parameters
    ----------
    controller : Controller
        As for `calibrate`.
    calibration : Calibration or CalibrationView
        Result of `calibrate`; of one with groups, one group: ``calibration["child"]``.
    fl_ctx, model, timeout, abort_signal, sites : as for `calibrate`
        The sites to ask, and the time to wait for them.
    period : str, optional
        When the cases arose that sites check, as in ``"2027-03"``: ``monitoring.watch`` puts the ``answers``
        of many such rounds together.

    Returns
    -------
    Assessment
        Coverage at each site with exact intervals, and the sites that fall short.

    Raises
    ------
    ValueError
        If the calibration has several groups, or no check that counts arrived.
    RoundAbortedError
        If the job was aborted before the round was over.

    Examples
    --------
    In the same ``control_flow``, where the sites' executors have ``check_scores``:

    >>> import fedconformal as fc
    >>> calibration = calibrate(controller, fc.plan(n_sites=3, n_points=80), fl_ctx, timeout=60)
    >>> assessment = check(controller, calibration, fl_ctx, timeout=60)
    >>> [(row.site, row.check.n) for row in assessment.rows]
    [('north', 200), ('south', 200), ('west', 200)]
    """
    rounds.check_options(timeout)
    chosen = _select_sites(fl_ctx, sites)
    collection = rounds.CheckCollection(calibration, chosen, period=period, engine="FLARE", log=log)
    _ask(controller, collection, model, fl_ctx, timeout, abort_signal)
    return collection.assess(timeout=timeout)


class ConformalController(Controller):
    """Workflow of one calibration round, for a job of its own or after the training in the same job.

    The trained model travels with the plan. The Calibration is written to ``calibration.json``
    among the job's results, and the reports beside it, in ``reports``, as they arrive.

    Parameters
    ----------
    plan : Plan or str
        The plan to be answered; as text only in the configuration of a job.
    timeout : float
        Seconds until a site that has not answered counts as missing.
    persistor_id : str
        The component to load the model from; without one it is the global model of an earlier workflow, if
        there is any.
    on_refused : {"skip", "raise"}
        Skip reports that do not answer the plan and list them in the calibration, or end the job.
    reports : str
        A folder at the server for the reports, instead of one among the job's results: another job with the
        same plan and folder resumes the round, and asks no site twice.
    sites : list of str, optional
        The names of the sites to ask; all of the job's by default.
    check : bool
        True to ask the sites afterwards for the coverage of new cases, which is written to ``check.txt``
        beside the calibration.

    Examples
    --------
    For a job that is written without a recipe:

    >>> import fedconformal as fc
    >>> from nvflare.job_config.api import FedJob
    >>> job = FedJob(name="calibrate", min_clients=2)
    >>> _ = job.to_server(ConformalController(fc.plan(n_sites=3, n_points=80), timeout=60))
    """

    __module__ = "fedconformal.nvflare"  # the path in job configurations and in a server's class_allow_list

    def __init__(
        self,
        plan: Plan | str,
        timeout: float = 300.0,
        persistor_id: str = "",
        on_refused: Literal["raise", "skip"] = "skip",
        reports: str = "",
        sites: list[str] | None = None,
        check: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(plan, Plan | str):
            raise TypeError(f"plan must be a Plan, or the text of one in a job's configuration, got {plan!r}")
        rounds.check_options(timeout, on_refused=on_refused)
        # FLARE writes a job's configuration from attributes that are named as the parameters are.
        read = plan if isinstance(plan, Plan) else Plan.from_json(plan.translate(_FROM_JOB))
        self.plan = read.to_json(indent=None).translate(_TO_JOB)
        self.timeout = timeout
        self.persistor_id = persistor_id
        self.on_refused: Literal["raise", "skip"] = on_refused
        self.reports = reports
        self.sites = sites
        self.check = check

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: there is nothing to prepare.

        Parameters
        ----------
        fl_ctx : FLContext
            The server's context.
        """

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: there is nothing to clean up.

        Parameters
        ----------
        fl_ctx : FLContext
            The server's context.
        """

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Any, fl_ctx: FLContext
    ) -> None:
        """Ignore a result that arrives after the round.

        Parameters
        ----------
        client, task_name, client_task_id, result, fl_ctx : Client, str, str, Shareable and FLContext
            As FLARE calls it.
        """
        log.warning("%s answered when the round was over: left out", client.name)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Run the round; without a calibration the job ends with the reason.

        Parameters
        ----------
        abort_signal : Signal
            Set when the job is aborted.
        fl_ctx : FLContext
            The server's context.
        """
        results = Path(fl_ctx.get_workspace().get_result_root(fl_ctx.get_job_id()))
        options: dict[str, Any] = {
            "model": self._model(fl_ctx),
            "timeout": self.timeout,
            "abort_signal": abort_signal,
            "sites": self.sites,
        }
        try:
            calibration = calibrate(
                self,
                Plan.from_json(self.plan.translate(_FROM_JOB)),
                fl_ctx,
                on_refused=self.on_refused,
                reports=self.reports or results / REPORTS,
                **options,
            )
        except (ValueError, RoundAbortedError) as error:
            self.system_panic(f"no calibration: {error}", fl_ctx)
            return
        write_text(results / CALIBRATION, calibration.to_json() + "\n", force=True)
        log.info("%s: %d sites answered", results / CALIBRATION, calibration.n_answers)
        if self.check:
            lines = self._check_lines(calibration, fl_ctx, **options)
            write_text(results / CHECKED, "".join(f"{line}\n" for line in lines), force=True)

    def add_to_fed_job(self, job: Any, ctx: Any, **kwargs: Any) -> None:
        """Let FLARE's job API add this controller.

        Parameters
        ----------
        job, ctx : FedJob and JobCtx
            As FLARE calls it.
        **kwargs
            None are known.
        """
        leave_out_of_jobs(job)
        super().add_to_fed_job(job, ctx, **kwargs)

    def _check_lines(self, calibration: Calibration, fl_ctx: FLContext, **options: Any) -> Iterator[str]:
        """Yield the coverage of new cases at each site in lines, group by group."""
        for group in calibration.plan.groups or (None,):
            part = calibration if group is None else calibration[group]
            suffix = "" if group is None else f", {group}"
            try:
                assessment = check(self, part, fl_ctx, **options)
            except (ValueError, RoundAbortedError) as error:
                yield f"not checked{suffix}: {error}"
                continue
            for row in assessment.rows:
                covered = f"{row.check.coverage:.3f} of {row.check.n} new cases covered"
                yield f"{row.name}{suffix}: {covered} at level {float(row.check.confidence_level):g}"
            yield assessment.sentence()

    def _model(self, fl_ctx: FLContext) -> Any:
        """Return the parameters of the trained model, if there is one."""
        if self.persistor_id:
            learnable = fl_ctx.get_engine().get_component(self.persistor_id).load(fl_ctx)
        else:
            learnable = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)
        if not isinstance(learnable, ModelLearnable) or learnable.is_empty():
            return None
        return learnable[ModelLearnableKey.WEIGHTS]


def _select_sites(fl_ctx: FLContext, sites: Collection[str] | None) -> dict[str, str]:
    """Return the sites of the job to ask, by the names that they were provisioned under."""
    names = [client.name for client in fl_ctx.get_engine().get_clients()]
    return {name: name for name in names if sites is None or name in sites}


def _ask(
    controller: Controller,
    collection: rounds.ReportCollection[str] | rounds.CheckCollection[str],
    model: Model | None,
    fl_ctx: FLContext,
    timeout: float,
    abort_signal: Signal | None,
) -> None:
    """Ask the sites that have not answered, and wait; each result goes to the collection as it arrives."""

    def receive(client_task: ClientTask, fl_ctx: FLContext) -> None:
        site, result = client_task.client.name, client_task.result
        failure, code = result.get(FAILURE), result.get_return_code()
        if isinstance(failure, int):
            collection.fail(site, int(failure))
        elif code != ReturnCode.OK:  # only a code that FLARE knows is repeated in the log
            collection.fail(site, code if isinstance(code, str) and code in _CODES else "unknown")
        else:
            collection.receive(site, read_field(result, question.answered))
        client_task.result = None

    question, beside = collection.question, {} if model is None else {MODEL: dict(model)}
    data = Shareable({question.asked: collection.packed, **beside})
    if collection.to_ask:
        controller.broadcast_and_wait(
            task=Task(question.name, data, timeout=math.ceil(timeout), result_received_cb=receive),
            fl_ctx=fl_ctx,
            targets=list(collection.to_ask),
            min_responses=0,  # all of them
            abort_signal=abort_signal,
        )
    if abort_signal is not None and abort_signal.triggered:
        raise RoundAbortedError("the job was aborted before every site had answered")


# -- recipes: a round after the training, or a job of the round alone --------------------------------------


def add_conformal(
    recipe: Recipe, plan: Plan, executor: ConformalExecutor | None = None, **options: Any
) -> None:
    """Add a calibration round to a recipe, after everything that is in it already.

    Parameters
    ----------
    recipe : Recipe
        Any of FLARE's recipes, for example FedAvgRecipe; the model that it trains travels with the plan.
    plan : Plan
        The plan to be answered.
    executor : ConformalExecutor, optional
        A subclass with ``scores`` of the job's own, with which the sites answer. Without one each site's own
        configuration names its function.
    **options : timeout, persistor_id, on_refused, reports, sites, check
        As for `ConformalController`.

    Examples
    --------
    After the training of any recipe, here of an empty one:

    >>> import fedconformal as fc
    >>> from nvflare.job_config.api import FedJob
    >>> from nvflare.recipe.spec import Recipe
    >>> recipe = Recipe(FedJob(name="training", min_clients=2))
    >>> add_conformal(recipe, fc.plan(n_sites=3, n_points=80), timeout=60)
    """
    recipe._job.to_server(ConformalController(plan, **options), id=rounds.CALIBRATE.name)
    recipe._add_to_client_apps(executor or ConformalExecutor())


class ConformalRecipe(Recipe):
    """Job of one calibration round, for sites that have the model already.

    Parameters
    ----------
    plan : Plan
        The plan to be answered.
    executor : ConformalExecutor, optional
        As for `add_conformal`.
    name : str
        The name of the job.
    min_clients : int
        Number of sites that must be connected for the job to start. If fewer are left while it runs, FLARE
        ends the job: choose it smaller than the number of sites.
    **options : timeout, on_refused, reports, sites, check
        As for `ConformalController`.

    Examples
    --------
    >>> import fedconformal as fc
    >>> recipe = ConformalRecipe(fc.plan(n_sites=3, n_points=80), name="calibrate", min_clients=2)
    >>> recipe.name
    'calibrate'
    """

    def __init__(
        self,
        plan: Plan,
        executor: ConformalExecutor | None = None,
        *,
        name: str = "conformal",
        min_clients: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(FedJob(name=name, min_clients=min_clients))
        add_conformal(self, plan, executor, **options)


def read_calibration(result: Any) -> Calibration:
    """Read the Calibration among the results of a job.

    Parameters
    ----------
    result : str or Path
        The folder that FLARE's ``run.get_result()`` gives, or that a job's results were downloaded to; at the
        server, the folder of the job.

    Returns
    -------
    Calibration
        The result of the round.

    Examples
    --------
    A folder of results, here with nothing else in it:

    >>> import tempfile
    >>> from pathlib import Path
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"north": range(80), "south": range(90)}, confidence_level=0.9)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "calibration.json").write_text(calibration.to_json())
    ...     read_calibration(folder) == calibration
    True
    """
    files = list(Path(result).rglob(CALIBRATION))
    if len(files) != 1:
        raise ValueError(f"result must be a folder with one {CALIBRATION} in it, {result} has {len(files)}")
    return Calibration.read(files[0])
