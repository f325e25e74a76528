"""Server side: ask every site of the job once, and calibrate, or assess, with the sites
that answered.
"""

from __future__ import annotations

import logging
import math
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from nvflare.apis.analytix import AnalyticsDataType
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.apis.utils.analytix_utils import create_analytic_dxo, send_analytic_dxo
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.abstract.model import ModelLearnable, ModelLearnableKey
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.decomposers import common_decomposers
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.fuel.utils import fobs

from fedconformal import rounds
from fedconformal._files import write_text
from fedconformal.documents import Calibration, CalibrationView, Plan, SigningKey
from fedconformal.nvflare._executor import leave_out_of_jobs
from fedconformal.nvflare._site import FAILURE, MODEL, Home, read_field, refuse_wiped
from fedconformal.protocol import model_digest

if TYPE_CHECKING:
    from fedconformal.monitoring import Assessment

log = logging.getLogger("fedconformal.nvflare")

CALIBRATION, REPORTS, CHECKED = "calibration.json", "reports", "check.txt"
FAILED = "no-calibration.txt"
"""Name of the file with the reason why a job has no calibration."""
SITES = "conformal_sites"
"""Metric with the number of sites that answered."""

Model = Mapping[str, Any]
"""Parameters of a model by their names, as in FLARE's ``FLModel.params``."""

CODES = {
    ReturnCode.EXECUTION_EXCEPTION: "its executor failed",
    ReturnCode.EXECUTION_RESULT_ERROR: "its executor gave no reply",
    ReturnCode.TASK_ABORTED: "the task was aborted there",
    ReturnCode.TASK_DATA_FILTER_ERROR: "one of its filters for task data failed",
    ReturnCode.TASK_RESULT_FILTER_ERROR: "one of its filters for results failed",
    ReturnCode.TASK_UNSUPPORTED: "its executor does not know the task",
    ReturnCode.TIMEOUT: "it did not answer in FLARE's own time limit",
}
"""Descriptions of FLARE's return codes that a site can send; of others not even the
text is repeated.
"""
_FOBS = "fobs"
"""Name under which a model that is not made of arrays is kept, as FLARE's own bytes."""
_FLARE: dict[str, Any] = {"engine": "FLARE", "log": log, "codes": CODES}


class RoundAbortedError(RuntimeError):
    """The job was aborted during the round; reports that had come in are in the folder
    of reports.
    """


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
    min_sites: int | None = None,
) -> Calibration:
    """Ask every site of the job for its report, once, and turn the reports into a
    Calibration.

    A site that fails, hangs or is not connected counts as missing, and the votes are
    solved again for the sites that answered. A site answers under the name that it was
    provisioned under and no other. The result is the same, byte for byte, as that of
    ``fedconformal.calibrate`` for the same reports.

    Parameters
    ----------
    controller : Controller
        FLARE's controller that asks, within its ``control_flow``; also a
        ``ModelController``.
    plan : Plan
        The plan to be answered.
    fl_ctx : FLContext
        As FLARE hands it to ``control_flow``.
    model : mapping, optional
        The parameters of the model by their names, for sites that need it to compute
        their scores.
    timeout : float
        Seconds until a site that has not answered counts as missing; rounded up to
        whole seconds.
    abort_signal : Signal, optional
        As FLARE hands it to ``control_flow``: aborting the job ends the round.
    on_refused : {"skip", "raise"}
        Skip reports that do not answer the plan and list them in the calibration, or
        raise RefusedReportsError.
    reports : str or Path, optional
        A folder in which the model and the reports are kept as they arrive. Called
        again with the same folder and plan, and the same model or none, only sites
        whose answers are not in it are asked, and nobody once the round is complete.
    sites : collection of str, optional
        The names of the sites to ask; all of the job's by default.
    min_sites : int, optional
        Number of sites that must be there; by default as many as the plan needs for
        finite thresholds.

    Returns
    -------
    Calibration
        The thresholds, and the missing sites.

    Raises
    ------
    ValueError
        If too few sites are there or answered.
    RoundAbortedError
        If the job was aborted before the round was over.

    Examples
    --------
    In the ``control_flow`` of a controller, which gets ``fl_ctx``, with three sites of
    80 cases each:

    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=3, n_points=80)
    >>> calibration = calibrate(controller, plan, fl_ctx, timeout=60)
    >>> calibration.n_answers, calibration.missing
    (3, ())
    """
    rounds.check_options(timeout, on_refused=on_refused)
    if model is None and reports is not None:
        model = read_model(reports)
    folder = None if reports is None else make_folder(reports, plan, model)
    nodes = _select_sites(fl_ctx, sites)
    if folder is None or not folder.is_complete:
        answered = (
            [] if folder is None else [report.site for report in folder.read()[0]]
        )
        rounds.check_present(plan, nodes, answered=answered, minimum=min_sites, log=log)
    collection = rounds.ReportCollection(plan, nodes, folder=folder, **_FLARE)
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
    key: SigningKey | None = None,
    masked: bool = False,
) -> Assessment:
    """Ask every site of the job for the number of its new cases that a calibration
    covers.

    It is verified here. Sites whose executor has ``check_scores`` get its thresholds
    and send one count for each level, with noise if they choose so; the others send a
    code. The log names those that did not answer.

    Parameters
    ----------
    controller : Controller
        As for `calibrate`.
    calibration : Calibration or CalibrationView
        Result of `calibrate`; of one with groups, one group: ``calibration["child"]``.
    fl_ctx, model, timeout, abort_signal, sites : as for `calibrate`
        The sites to ask, and the time to wait for them.
    period : str, optional
        When the cases arose that sites check, as in ``"2027-03"``: ``monitoring.watch``
        puts the ``answers`` of many such rounds together.
    key : SigningKey, optional
        The coordinator's, for sites whose policy wants its signature. Without it a
        signed calibration is sent as a whole, and sites verify it too.
    masked : bool
        Ask for masked counts, of which nothing but the sum over all sites can be read;
        it needs every site, and a plan with their keys.

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
    >>> calibration = calibrate(
    ...     controller, fc.plan(n_sites=3, n_points=80), fl_ctx, timeout=60
    ... )
    >>> assessment = check(controller, calibration, fl_ctx, timeout=60)
    >>> [(row.site, row.check.n) for row in assessment.rows]
    [('north', 200), ('south', 200), ('west', 200)]
    """
    rounds.check_options(timeout)
    chosen = _select_sites(fl_ctx, sites)
    collection = rounds.CheckCollection(
        calibration, chosen, key=key, period=period, masked=masked, **_FLARE
    )
    _ask(controller, collection, model, fl_ctx, timeout, abort_signal)
    return collection.assess(timeout=timeout)


class ConformalController(Controller):
    """Workflow of one calibration round, for a job of its own or after the training in
    the same job.

    The trained model travels with the plan. The Calibration is written to
    ``calibration.json`` among the job's results, and the model and the reports beside
    it, in ``reports``, as they arrive. Threshold, mean coverage and number of sites go
    to the job's metrics summary, and as analytics events to trackers.

    Parameters
    ----------
    plan : Plan or str
        The plan to be answered; in the configuration of a job the name of the folder
        that holds it.
    timeout : float
        Seconds until a site that has not answered counts as missing.
    model : mapping, optional
        The parameters of the model by their names, which the job then carries. Without
        them it is the model in ``reports``, if an earlier job left one, or else the one
        that the same job trained.
    persistor_id : str
        The component to load the trained model from; without one it is the global model
        of an earlier workflow, if there is any.
    on_refused : {"skip", "raise"}
        Skip reports that do not answer the plan and list them in the calibration, or
        end the job.
    reports : str
        A folder at the server for model and reports, instead of one among the job's
        results: another job with the same plan and folder resumes the round with the
        same model, and asks no site twice.
    sites : list of str, optional
        The names of the sites to ask; all of the job's by default.
    min_sites : int, optional
        Number of sites that must be there; by default as many as the plan needs for
        finite thresholds.
    check : bool
        True to ask the sites afterwards for the coverage of new cases, which is written
        to ``check.txt`` beside the calibration.

    Examples
    --------
    For a job that is written without a recipe:

    >>> import fedconformal as fc
    >>> from nvflare.job_config.api import FedJob
    >>> job = FedJob(name="calibrate", min_clients=2)
    >>> _ = job.to_server(
    ...     ConformalController(fc.plan(n_sites=3, n_points=80), timeout=60)
    ... )
    """

    __module__ = (  # the path in job configurations and in a server's class_allow_list
        "fedconformal.nvflare"
    )

    def __init__(
        self,
        plan: Plan | str,
        timeout: float = 300.0,
        model: Model | None = None,
        persistor_id: str = "",
        on_refused: Literal["raise", "skip"] = "skip",
        reports: str = "",
        sites: list[str] | None = None,
        min_sites: int | None = None,
        check: bool = False,
    ) -> None:
        super().__init__()
        is_name = (
            isinstance(plan, str) and plan not in ("", "..") and Path(plan).name == plan
        )
        if not isinstance(plan, Plan) and not is_name:
            raise TypeError(
                f"plan must be a Plan, or the name of its folder in a job, got {plan!r}"
            )
        rounds.check_options(timeout, on_refused=on_refused)
        if reports and not Path(reports).is_absolute():
            raise ValueError(
                f"reports must be an absolute path at the server, got {reports!r}"
            )
        # FLARE writes a job's configuration from attributes that are named as the
        # parameters are.
        self._document = plan if isinstance(plan, Plan) else None
        self.plan = f"conformal-{plan.digest[-12:]}" if isinstance(plan, Plan) else plan
        self.timeout = timeout
        self.model, self._parameters = None, model
        self.persistor_id = persistor_id
        self.on_refused: Literal["raise", "skip"] = on_refused
        self.reports = reports
        self.sites = sites
        self.min_sites = min_sites
        self.check = check
        self._aggregated: FLModel | None = None

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
        self,
        client: Any,
        task_name: str,
        client_task_id: str,
        result: Any,
        fl_ctx: FLContext,
    ) -> None:
        """Ignore a result that arrives after the round.

        Parameters
        ----------
        client, task_name, client_task_id : Client, str and str
            As FLARE calls it.
        result, fl_ctx : Shareable and FLContext
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
        home, reports = Home.of(fl_ctx), Path(self.reports or results / REPORTS)
        options: dict[str, Any] = {
            "timeout": self.timeout,
            "abort_signal": abort_signal,
            "sites": self.sites,
        }
        kept: dict[str, Any] = {"reports": reports, "min_sites": self.min_sites}
        try:
            if self.reports:
                refuse_wiped("reports", reports, home.root, home.job)
            plan, options["model"] = self._read_job(fl_ctx, reports)
            _check_model(plan, options["model"])
            calibration = calibrate(
                self, plan, fl_ctx, on_refused=self.on_refused, **options, **kept
            )
        except (ValueError, OSError, RoundAbortedError) as error:
            reason = f"no calibration: {error}"
            with suppress(OSError):
                write_text(results / FAILED, f"{reason}\n", force=True)
            self.system_panic(reason, fl_ctx)
            return
        write_text(results / CALIBRATION, calibration.to_json() + "\n", force=True)
        log.info("the calibration is in %s", results / CALIBRATION)
        self._publish(calibration, fl_ctx)
        if self.check:
            lines = self._check_lines(calibration, fl_ctx, **options)
            write_text(
                results / CHECKED, "".join(f"{line}\n" for line in lines), force=True
            )

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Remember the metrics of the training, beside which those of the round are
        published.

        Parameters
        ----------
        event_type : str
            FLARE's event.
        fl_ctx : FLContext
            The server's context.
        """
        super().handle_event(event_type, fl_ctx)
        if event_type == AppEventType.AFTER_AGGREGATION:
            result = fl_ctx.get_prop(AppConstants.AGGREGATION_RESULT)
            with suppress(ValueError):  # some workflows aggregate what is no model
                result = (
                    FLModelUtils.from_shareable(result)
                    if isinstance(result, Shareable)
                    else result
                )
            self._aggregated = (
                result if isinstance(result, FLModel) else self._aggregated
            )

    def add_to_fed_job(self, job: Any, ctx: Any, **kwargs: Any) -> None:
        """Let FLARE's job API add this controller.

        Parameters
        ----------
        job, ctx : FedJob and JobCtx
            As FLARE calls it.
        **kwargs
            Left out: there are none for a controller.
        """
        others = [
            workflow.controller for workflow in job._get_app(ctx).app_config.workflows
        ]
        if any(isinstance(other, ConformalController) for other in others):
            raise ValueError(
                "the job has a calibration round already: add one round to each job"
            )
        leave_out_of_jobs(job)
        if (
            self._document is not None
        ):  # no code: a site that lets none in takes the job
            self._folder = tempfile.TemporaryDirectory()
            make_folder(self._folder.name, self._document, self._parameters)
            job.add_file_source(self._folder.name, self.plan, "config", ctx)
        super().add_to_fed_job(job, ctx)

    def _check_lines(
        self, calibration: Calibration, fl_ctx: FLContext, **options: Any
    ) -> Iterator[str]:
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
                yield (
                    f"{row.name}{suffix}: {covered} at level"
                    f" {float(row.check.confidence_level):g}"
                )
            yield assessment.sentence()

    def _publish(self, calibration: Calibration, fl_ctx: FLContext) -> None:
        """Give the figures of the round to the job's metrics summary and to
        trackers.
        """
        figures, levels = (
            {SITES: float(calibration.n_answers)},
            calibration.plan.confidence_levels,
        )
        for group in calibration.plan.groups or (None,):
            for level in levels:
                view = calibration[level if group is None else (group, level)]
                name = ("" if group is None else f"_{group}") + (
                    f"_{float(level):g}" if levels[1:] else ""
                )
                figures[f"conformal_threshold{name}"] = float(view.threshold)
                if view.law is not None:
                    figures[f"conformal_mean_coverage{name}"] = float(view.law.mean())
        before = self._aggregated or FLModel(metrics={})
        # FLARE's summary leaves out numbers that are not finite, and texts.
        infinite = {
            f"{name}_is_infinite": True
            for name, value in figures.items()
            if math.isinf(value)
        }
        metrics = {**(before.metrics or {}), **figures, **infinite}
        after = FLModel(
            metrics=metrics, current_round=before.current_round, meta=before.meta
        )
        self.fire_event_with_data(
            AppEventType.AFTER_AGGREGATION,
            fl_ctx,
            AppConstants.AGGREGATION_RESULT,
            after,
        )
        for name, value in figures.items():
            dxo = create_analytic_dxo(
                name, value, AnalyticsDataType.SCALAR, global_step=0
            )
            send_analytic_dxo(self, dxo, fl_ctx)

    def _read_job(self, fl_ctx: FLContext, reports: Path) -> tuple[Plan, Any]:
        """Return the plan, and the model: of the job, of the round that is resumed, or
        of the training.
        """
        plan, model = self._document, self._parameters
        if plan is None:
            folder = (
                Path(fl_ctx.get_workspace().get_app_config_dir(fl_ctx.get_job_id()))
                / self.plan
            )
            plan, model = Plan.read(folder / rounds.PLAN_FILE), read_model(folder)
        if model is not None:
            return plan, model
        trained = self._read_trained(fl_ctx)
        kept = read_model(reports)
        if kept is None:
            return plan, trained
        if trained is not None and model_digest(trained) != model_digest(kept):
            log.warning(
                "the round is resumed with the model in %s, not with the one of"
                " this job",
                reports,
            )
        return plan, kept

    def _read_trained(self, fl_ctx: FLContext) -> Any:
        """Return the parameters of the trained model, if there is one."""
        if self.persistor_id:
            learnable = (
                fl_ctx.get_engine().get_component(self.persistor_id).load(fl_ctx)
            )
        else:
            learnable = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)
        if not isinstance(learnable, ModelLearnable) or learnable.is_empty():
            return None
        return learnable[ModelLearnableKey.WEIGHTS]


def _check_model(plan: Plan, model: Model | None) -> None:
    """Refuse a job without the model that its plan names: sites could not compare it
    with theirs.
    """
    named = plan.terms.model
    if not model and (
        named is None or plan.is_masked
    ):  # sites state the model of a masked answer
        log.warning("no model travels with the plan: the sites must have it")
    elif not model:
        raise ValueError(
            f"the plan names the model {named}, and none travels with it: give"
            " model=parameters"
        )
    elif named is not None and model_digest(model) != named:
        raise ValueError(
            f"the plan names the model {named}, and this job has {model_digest(model)}"
        )


def make_folder(path: str | Path, plan: Plan, model: Model | None) -> rounds.Folder:
    """Make, or open, the folder of a round that keeps a model of any kind that FLARE
    sends.
    """
    if not model:
        return rounds.Folder(path, plan)
    kept = model
    if not all(
        isinstance(value, np.ndarray) and value.dtype.kind in "biufc"
        for value in model.values()
    ):
        common_decomposers.register()
        kept = {_FOBS: np.frombuffer(fobs.dumps(dict(model)), np.uint8)}
    return rounds.Folder(path, plan, model=model_digest(model), parameters=kept)


def read_model(path: str | Path) -> Any:
    """Read the model that a folder of `make_folder` keeps; None if it keeps none."""
    kept = rounds.Folder.read_model(path)
    return (
        fobs.loads(kept[_FOBS].tobytes())
        if kept is not None and list(kept) == [_FOBS]
        else kept
    )


def _select_sites(fl_ctx: FLContext, sites: Collection[str] | None) -> dict[str, str]:
    """Return the sites of the job to ask, by the names that they were provisioned
    under.
    """
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
    """Ask the sites that have not answered, and wait; each result goes to the
    collection as it arrives.
    """
    lock, is_over = threading.Lock(), False
    errors: list[Exception] = []

    def receive(client_task: ClientTask, fl_ctx: FLContext) -> None:
        with (
            lock
        ):  # FLARE calls it from a thread for every site, some when the time is over
            if is_over:
                log.warning(
                    "%s answered when the round was over: left out",
                    client_task.client.name,
                )
                return
            try:
                collect(client_task)
            except Exception as error:  # FLARE ends the task, and raises nothing
                errors.append(error)
                raise

    def collect(client_task: ClientTask) -> None:
        site, result = client_task.client.name, client_task.result
        failure, code = result.get(FAILURE), result.get_return_code()
        if isinstance(failure, int):
            collection.fail(site, int(failure))
        elif code != ReturnCode.OK:  # only a code that is known is repeated in the log
            collection.fail(
                site, code if isinstance(code, str) and code in CODES else "unknown"
            )
        else:
            collection.receive(site, read_field(result, question.answered))
        client_task.result = None

    question, beside = (
        collection.question,
        {} if model is None else {MODEL: dict(model)},
    )
    data = Shareable({question.asked: collection.packed, **beside})
    if collection.to_ask:
        controller.broadcast_and_wait(
            task=Task(
                question.name,
                data,
                timeout=math.ceil(timeout),
                result_received_cb=receive,
            ),
            fl_ctx=fl_ctx,
            targets=list(collection.to_ask),
            min_responses=0,  # all of them
            abort_signal=abort_signal,
        )
        with lock:
            is_over = True
        if errors:
            raise errors[0]
    if abort_signal is not None and abort_signal.triggered:
        raise RoundAbortedError("the job was aborted before every site had answered")
