"""Server's half: a round inside the main function of a ServerApp."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent import futures
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.common.constant import ErrorCode

from fedconformal import rounds
from fedconformal._util import integer
from fedconformal.documents import Calibration, CalibrationView, Plan, SigningKey
from fedconformal.flower._client import ARRAYS, RECORD, log, read_field
from fedconformal.protocol import model_digest

if TYPE_CHECKING:
    from flwr.proto.node_pb2 import NodeInfo
    from flwr.server import ServerAppComponents
    from flwr.serverapp import Grid

    from fedconformal.monitoring import Assessment

Chosen: TypeAlias = "Callable[[NodeInfo], bool] | Collection[int | str]"
"""Selection of nodes: a function of Flower's NodeInfo, or numbers or registered names.
"""

# Seconds by which a site's clock may be wrong: Flower drops replies that seem older
# than their question.
CLOCKS = 600.0

_CODES = {
    ErrorCode.LOAD_CLIENT_APP_EXCEPTION: "its ClientApp could not be loaded",
    ErrorCode.CLIENT_APP_RAISED_EXCEPTION: (
        "its ClientApp raised an exception; its own log says which"
    ),
    ErrorCode.MESSAGE_UNAVAILABLE: (
        "the question, or the reply to it, did not get through in time"
    ),
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE: "the reply came too late",
    ErrorCode.NODE_UNAVAILABLE: "it is not connected any more",
    ErrorCode.MOD_FAILED_PRECONDITION: "a mod of its ClientApp refused",
    ErrorCode.INVALID_FAB: "it could not install the app",
    ErrorCode.CLIENT_APP_CRASHED: "its ClientApp crashed",
}
"""Sentences for Flower's error codes, whose own texts may be long and quote the site.
"""

_ENGINE: dict[str, Any] = {"engine": "Flower", "log": log, "codes": _CODES}

# in which replies are fetched: a large one holds up few others, none if sites are few
_PORTIONS = 4
_PATIENCE = (
    1.0  # seconds until a reply that is still being fetched goes on beside the others
)
# Seconds between two looks for replies, at first and at last; in between a share of the
# time so far.
_SHORTEST, _LONGEST, _SHARE = 0.05, 3.0, 0.05


def calibrate(
    grid: Grid,
    plan: Plan,
    arrays: ArrayRecord | None = None,
    timeout: float = 300.0,
    *,
    reports: str | Path | None = None,
    nodes: Chosen | None = None,
    wait: float = 10.0,
    min_sites: int | None = None,
    on_refused: Literal["raise", "skip"] = "skip",
) -> Calibration:
    """Ask every connected site for its report, once, and turn the reports into a
    Calibration.

    A site that fails, hangs or is not connected counts as missing, and the votes are
    solved again for the sites that answered. The result is the same, byte for byte, as
    that of ``fedconformal.calibrate`` for the same reports.

    Parameters
    ----------
    grid : Grid
        Flower's grid, as the ServerApp's main function gets it.
    plan : Plan
        The plan to be answered.
    arrays : ArrayRecord, optional
        The model, for sites that need it to compute their scores; by default that of
        the round that is resumed, if any.
    timeout : float
        Seconds until a site that has not answered counts as missing. In a deployment
        SuperNodes look for questions, and this function for replies, every three
        seconds: allow ten at least.
    reports : str or Path, optional
        A folder, in the app's folder if it is relative, in which each round gets a new
        one, named in the log, for its plan, its model and the reports as they arrive.
        The folder of an interrupted round resumes it: sites that have answered are not
        asked, or charged, again, and nobody is once it is complete.
    nodes : callable, or collection of int or str, optional
        Nodes to ask: a function of Flower's NodeInfo (``node_id``, ``name``, ...), or
        numbers or registered names; all by default.
    wait : float
        Seconds to wait for as many sites as the plan has, or ``min_sites``; then the
        round starts with those that are connected.
    min_sites : int, optional
        Smallest number of sites to start with; by default as many as the plan needs for
        finite thresholds, or those that an open plan expects.
    on_refused : {"skip", "raise"}
        Skip reports that do not answer the plan and list them in the calibration, or
        raise RefusedReportsError.

    Returns
    -------
    Calibration
        The thresholds, and the missing sites.

    Raises
    ------
    ValueError
        If ``arrays`` are not the model that the plan names, too few sites are
        connected, or none answered.

    Examples
    --------
    In the main function of a ServerApp, whose ``grid`` reaches three sites with 80
    cases each:

    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=3, n_points=80)
    >>> calibration = calibrate(grid, plan, timeout=60)
    >>> calibration.n_answers, calibration.missing
    (3, ())
    """
    check_round(
        timeout,
        reports=reports,
        nodes=nodes,
        wait=wait,
        min_sites=min_sites,
        on_refused=on_refused,
    )
    resumed = None if arrays else read_round(grid, reports)
    if resumed is not None and resumed[0].digest == plan.digest:
        arrays = resumed[1]
    arrays = arrays or None
    model = None if arrays is None else model_digest(arrays)
    if model is not None and plan.terms.model not in {None, model}:
        raise ValueError(
            f"arrays must be the model that the plan names ({plan.terms.model}), got"
            f" {model}"
        )
    folder = (
        None if reports is None else _open_folder(grid, reports, plan, arrays, model)
    )
    is_over = folder is not None and folder.is_complete
    connected = (
        {} if is_over else _wait_for_nodes(grid, nodes, min_sites or plan.n_sites, wait)
    )
    if not is_over:
        done, answered = (
            ([], set())
            if folder is None
            else (folder.read()[0], folder.answered(connected))
        )
        others = {
            node: name for node, name in connected.items() if node not in answered
        }
        sites = [report.site for report in done]
        rounds.check_present(plan, others, answered=sites, minimum=min_sites, log=log)
    collection = rounds.ReportCollection(plan, connected, folder=folder, **_ENGINE)
    _ask_nodes(grid, collection, arrays, timeout)
    return collection.calibrate(timeout=timeout, on_refused=on_refused)


def check(
    grid: Grid,
    calibration: Calibration | CalibrationView,
    arrays: ArrayRecord | None = None,
    timeout: float = 300.0,
    *,
    nodes: Chosen | None = None,
    wait: float = 10.0,
    period: str | None = None,
    key: SigningKey | None = None,
    masked: bool = False,
) -> Assessment:
    """Ask every connected site for the number of its new cases that a calibration
    covers.

    It is verified here. Sites whose app has a ``check_scores_fn`` get its thresholds
    and send one count for each level, with noise if they choose so; the others send a
    code. The log names those that did not answer.

    Parameters
    ----------
    grid : Grid
        As for `calibrate`.
    calibration : Calibration or CalibrationView
        Result of `calibrate`; of one with groups, one group: ``calibration["child"]``.
    arrays : ArrayRecord, optional
        The model that it was made for.
    timeout, nodes, wait : as for `calibrate`
        The nodes to ask, and the time to wait for them.
    period : str, optional
        When the cases arose that sites check, as in ``"2027-03"``: ``monitoring.watch``
        puts the ``answers`` of many such rounds together.
    key : SigningKey, optional
        The coordinator's, for sites whose policy names a ``coordinator``.
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
        If the calibration has several groups or does not verify, or no check that
        counts arrived.

    Examples
    --------
    In the same main function, where the sites' apps have a ``check_scores_fn``:

    >>> import fedconformal as fc
    >>> calibration = calibrate(grid, fc.plan(n_sites=3, n_points=80), timeout=60)
    >>> assessment = check(grid, calibration, timeout=60)
    >>> [(row.site, row.check.n) for row in assessment.rows]
    [('north', 200), ('south', 200), ('west', 200)]
    """
    check_round(timeout, nodes=nodes, wait=wait)
    connected = _wait_for_nodes(grid, nodes, calibration.n_answers, wait)
    collection = rounds.CheckCollection(
        calibration, connected, period=period, masked=masked, key=key, **_ENGINE
    )
    _ask_nodes(grid, collection, arrays, timeout)
    return collection.assess(timeout=timeout)


def check_round(
    timeout: float = 300.0,
    *,
    reports: str | Path | None = None,
    nodes: Chosen | None = None,
    min_sites: int | None = None,
    **options: Any,
) -> None:
    """Refuse options of `calibrate` before anything is trained or anybody is asked."""
    rounds.check_options(timeout, **options)
    if isinstance(nodes, str) or not (
        nodes is None or callable(nodes) or isinstance(nodes, Collection)
    ):
        raise TypeError(
            "nodes must be a function of a node, or numbers or names of nodes, got"
            f" {nodes!r}"
        )
    if min_sites is not None:
        integer("min_sites", min_sites, low=1)
    check_path("reports", reports)


def check_path(name: str, path: str | Path | None) -> None:
    """Refuse what is no path."""
    if not isinstance(path, str | Path | None):
        raise TypeError(f"{name} must be a path, got {path!r}")


def find_path(grid: Grid, path: str | Path) -> Path:
    """Return an absolute path: a relative one is in the folder in which Flower has
    installed the app.

    A server app itself runs wherever its SuperLink happened to be started.
    """
    from flwr.common.config import get_project_dir

    run = grid.run
    app = (
        get_project_dir(run.fab_id, run.fab_version, run.fab_hash)
        if run.fab_id
        else Path()
    )
    return (app / path).resolve()


def _open_folder(
    grid: Grid,
    reports: str | Path,
    plan: Plan,
    arrays: ArrayRecord | None,
    model: str | None,
) -> rounds.Folder:
    """Return the folder of a new round, or of the one that is resumed."""
    path = find_path(grid, reports)
    if not (path / rounds.PLAN_FILE).exists():
        path = rounds.new_folder(path, plan)
    log.info("reports are kept in %s", path)
    parameters = (
        None
        if arrays is None
        else {name: array.numpy() for name, array in arrays.items()}
    )
    return rounds.Folder(path, plan, model=model, parameters=parameters)


def read_round(
    grid: Grid, reports: str | Path | None
) -> tuple[Plan, ArrayRecord] | None:
    """Return the plan and the model of the round that a folder is of; None if it is not
    one of a round.
    """
    if (
        reports is None
        or not ((path := find_path(grid, reports)) / rounds.PLAN_FILE).exists()
    ):
        return None
    model = rounds.Folder.read_model(path) or {}
    return Plan.read(path / rounds.PLAN_FILE), ArrayRecord(
        {name: Array(model[name]) for name in model}
    )


def _wait_for_nodes(
    grid: Grid, chosen: Chosen | None, wanted: int | None, wait: float
) -> dict[int, str]:
    """Wait until this many of the chosen nodes are connected; return the registered
    name, if any, of each.
    """
    if isinstance(chosen, Collection):
        wanted = min(wanted or len(chosen), len(chosen))
    elif wanted is None:
        log.warning(
            "the plan expects no number of sites: whoever is connected is asked; see"
            " min_sites"
        )

    def is_chosen(node: NodeInfo) -> bool:
        if callable(chosen):
            return chosen(node)
        return (
            chosen is None
            or node.node_id in chosen
            or (node.name != "" and node.name in chosen)
        )

    deadline = time.monotonic() + wait
    while True:
        nodes = {
            node.node_id: node.name for node in grid.get_nodes() if is_chosen(node)
        }
        if len(nodes) >= (wanted or 1):
            return nodes
        if time.monotonic() >= deadline:
            log.warning("sites connected: %d, wanted: %d", len(nodes), wanted or 1)
            return nodes
        time.sleep(min(0.5, max(0.0, deadline - time.monotonic())))


def _ask_nodes(
    grid: Grid,
    collection: rounds.ReportCollection[int] | rounds.CheckCollection[int],
    arrays: ArrayRecord | None,
    timeout: float,
) -> None:
    """Ask the nodes that have not answered, and hand every reply to the collection as
    it arrives.

    The timeout also ends the wait for a reply that has begun to arrive.
    """
    question = collection.question
    content = RecordDict({RECORD: ConfigRecord({question.asked: collection.packed})})
    if arrays is not None:
        content[ARRAYS] = arrays
    kind, ttl = f"query.{question.name}", timeout + CLOCKS
    messages = [Message(content, node, kind, ttl=ttl) for node in collection.to_ask]
    if not messages:
        return
    sent = set(grid.push_messages(messages))
    # An error reply may name the server as its source: only the question identifies the
    # node.
    nodes = {
        message.metadata.message_id: message.metadata.dst_node_id
        for message in messages
    }
    for reply in _pull_replies(grid, sent & set(nodes), time.monotonic() + timeout):
        node = nodes.get(reply.metadata.reply_to_message_id)
        if reply.has_error():
            collection.fail(node, reply.error.code)
        else:
            collection.receive(node, read_field(reply, question.answered))


def _pull_replies(
    grid: Grid, questions: set[str], deadline: float
) -> Iterator[Message]:
    """Yield the replies to these questions until all are there or the time is over.

    In threads, because `Grid.pull_messages` and `Grid.send_and_receive` wait, beyond
    any timeout, for a reply whose upload has begun and does not end, and return no
    other before.
    """
    unanswered, start = set(questions), time.monotonic()
    pending: dict[Future[Iterable[Message]], set[str]] = {}

    def pull(portion: set[str], result: Future[Iterable[Message]]) -> None:
        try:
            result.set_result(grid.pull_messages(portion))
        except Exception as error:
            result.set_exception(error)

    while unanswered and time.monotonic() < deadline:
        waiting = sorted(unanswered.difference(*pending.values()))
        for offset in range(min(_PORTIONS, len(waiting))):
            portion, result = (
                set(waiting[offset::_PORTIONS]),
                Future[Iterable[Message]](),
            )
            pending[result] = portion
            threading.Thread(target=pull, args=(portion, result), daemon=True).start()
            futures.wait(
                [result], max(0.0, min(_PATIENCE, deadline - time.monotonic()))
            )
        for result in [each for each in pending if each.done()]:
            del pending[result]
            for reply in result.result():
                unanswered.discard(reply.metadata.reply_to_message_id)
                yield reply
        if unanswered:
            now = time.monotonic()
            pause = min(max(_SHORTEST, _SHARE * (now - start)), _LONGEST)
            time.sleep(max(0.0, min(pause, deadline - now)))


def train(
    grid: Grid, context: Context, server_fn: Callable[[Context], ServerAppComponents]
) -> ArrayRecord:
    """Run the training of an app with a ``server_fn`` inside a main function, and
    return the model.

    Examples
    --------
    In the main function of a ServerApp, which gets ``grid`` and ``context``; without
    any round here, so that the model is the initial one:

    >>> import numpy as np
    >>> from flwr.common import ndarrays_to_parameters
    >>> from flwr.server import ServerAppComponents, ServerConfig
    >>> from flwr.server.strategy import FedAvg
    >>> def server_fn(context):
    ...     strategy = FedAvg(initial_parameters=ndarrays_to_parameters([np.zeros(3)]))
    ...     return ServerAppComponents(
    ...         strategy=strategy, config=ServerConfig(num_rounds=0)
    ...     )
    >>> train(grid, context, server_fn).to_numpy_ndarrays()
    [array([0., 0., 0.])]
    """
    from flwr.common import parameters_to_ndarrays
    from flwr.server import Server, ServerAppComponents, SimpleClientManager
    from flwr.server.strategy import FedAvg
    from flwr.serverapp import ServerApp

    parts = server_fn(context)
    server = parts.server or Server(
        client_manager=parts.client_manager or SimpleClientManager(),
        strategy=parts.strategy or FedAvg(),
    )
    components = ServerAppComponents(server=server, config=parts.config)
    ServerApp(server_fn=lambda _: components)(grid, context)
    return ArrayRecord(parameters_to_ndarrays(server.parameters))
