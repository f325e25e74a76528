"""Both sides of a round in Flower's messages: handlers of a ClientApp, and calls in a ServerApp."""

from __future__ import annotations

import inspect
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common import parameters_to_ndarrays
from flwr.proto.node_pb2 import NodeInfo
from flwr.server import Server, ServerAppComponents, SimpleClientManager
from flwr.server.strategy import FedAvg
from flwr.serverapp import Grid, ServerApp

from fedconformal import rounds
from fedconformal._text import one_line
from fedconformal.documents import Calibration, CalibrationView, Plan
from fedconformal.protocol import model_digest

if TYPE_CHECKING:
    from fedconformal.monitoring import Assessment

log = logging.getLogger("flwr.fedconformal")

RECORD, ARRAYS = "conformal", "arrays"
"""Names of a message's records: our own, and the model."""

Handler = Callable[[Message, Context], Message]
Compute = Callable[[Message, Context, Plan], Any]

Chosen = Callable[[NodeInfo], bool] | Collection[int | str]
"""Selection of nodes: a function of Flower's NodeInfo, or numbers or registered names."""

# Seconds by which a site's clock may be wrong: Flower drops replies that seem older than their question.
CLOCKS = 600.0

_PORTIONS = 8  # in which replies are fetched: a large one holds up few others, none if sites are few
_PATIENCE = 1.0  # seconds until a reply that is still being fetched goes on beside the others
# Seconds between two looks for replies, at first and at last; in between a share of the time so far.
_SHORTEST, _LONGEST, _SHARE = 0.1, 3.0, 0.03


def read_field(message: Message, name: str, *, beside: str | None = None) -> object:
    """Return the only field of our record, of any type; one record may come beside it."""
    record: Mapping[str, Any] = message.content.config_records.get(RECORD) or {}
    return rounds.extract_field(record, name, (key for key in message.content if key not in (RECORD, beside)))


def _read_arrays(message: Message) -> ArrayRecord:
    """Return the model that came with the question; empty if none did."""
    return message.content.array_records.get(ARRAYS) or ArrayRecord()


def _reply_failure(code: rounds.Failure, message: Message) -> Message:
    return Message(Error(code=int(code), reason=code.meaning), reply_to=message)


# -- the site -----------------------------------------------------------------------------------------------


def add_conformal(
    client_app: ClientApp,
    scores_fn: Callable[..., Any],
    *,
    check_scores_fn: Callable[..., Any] | None = None,
    settings: Callable[[Context], Mapping[str, Any]] | None = None,
) -> None:
    """Let a ClientApp answer plans: ``scores_fn`` computes the site's scores, one report leaves.

    The report is written to the site's log before it leaves (in a simulation at the level DEBUG). If anything
    fails, a fixed code leaves instead (``Failure``), and the exception stays in the site's log.

    Parameters
    ----------
    client_app : ClientApp
        The app; its other handlers stay as they are. One with a ``client_fn`` takes no handlers: give it
        ``mods=[conformal_mod(scores_fn)]``, a function with the same options.
    scores_fn : callable
        Returns the calibration scores of this site, or a pair of scores and labels: the group, or the true
        class, of each, which a plan with groups needs. It is given those of ``message``, ``context``,
        ``arrays`` (the model that the server sent, an ArrayRecord), ``parameters`` (the same as a list of
        numpy arrays) and ``plan`` that its parameters name; with parameters of other names,
        ``(message, context)``, or ``(context)`` if it has one.
    check_scores_fn : callable, optional
        The same for new cases, on which the site checks a calibration: the number of covered cases leaves.
        Without this function no check is answered.
    settings : callable, optional
        The site's settings from a context; by default the node's configuration. ``site`` is its name (else
        ``site-N`` with its ``partition-id`` N, else ``node-N`` with the node's number); ``signing-key``,
        ``ledger`` and ``policy`` are files, ``dataset`` the name of its data in the ledger, and
        ``check-epsilon`` and ``check-dataset`` make its checks private. With a ledger a plan that is not
        private is refused, unless the policy has ``private_only = false``.

    Raises
    ------
    TypeError
        If ``scores_fn`` has parameters that cannot be given.
    ValueError
        If the app has a ``client_fn``, or answers plans already.

    Examples
    --------
    In ``client_app.py``; the site computes its scores with the model that comes with the plan:

    >>> import numpy as np
    >>> from flwr.clientapp import ClientApp
    >>> app = ClientApp()
    >>> def scores(context, parameters):
    ...     X, y = np.ones((80, 3)), np.arange(80.0)  # this site's calibration cases
    ...     return np.abs(y - X @ parameters[0])
    >>> add_conformal(app, scores)
    """
    handlers = _make_handlers(scores_fn, check_scores_fn, settings)
    try:
        for action, reply in handlers.items():
            client_app.query(action)(reply)
    except ValueError as error:
        raise ValueError(
            "this ClientApp takes no more handlers: one with a client_fn answers plans as "
            f"ClientApp(client_fn, mods=[conformal_mod(scores_fn)]); Flower says: {one_line(str(error), 200)}"
        ) from None


def conformal_mod(
    scores_fn: Callable[..., Any], **options: Any
) -> Callable[[Message, Context, Handler], Message]:
    """Answer plans in an app with a ``client_fn``: a Flower mod, with the arguments of `add_conformal`.

    Examples
    --------
    >>> import numpy as np
    >>> from flwr.client import NumPyClient
    >>> from flwr.clientapp import ClientApp
    >>> def client_fn(context):
    ...     return NumPyClient().to_client()
    >>> def scores(context):
    ...     return np.arange(80.0)  # this site's calibration scores
    >>> app = ClientApp(client_fn, mods=[conformal_mod(scores)])
    """
    handlers = _make_handlers(scores_fn, **options)

    def mod(message: Message, context: Context, call_next: Handler) -> Message:
        action = message.metadata.message_type.removeprefix("query.")
        return handlers.get(action, call_next)(message, context)

    return mod


def _make_handlers(
    scores_fn: Callable[..., Any],
    check_scores_fn: Callable[..., Any] | None = None,
    settings: Callable[[Context], Mapping[str, Any]] | None = None,
) -> dict[str, Handler]:
    """Return the handler of each kind of question by its name."""

    def find_site(context: Context, *, of_checks: bool) -> rounds.Site:
        config = settings(context) if settings else context.node_config
        number = config.get("partition-id")
        name = config.get("site", f"node-{context.node_id}" if number is None else f"site-{number}")
        values = {field: config.get(field.replace("_", "-")) for field in rounds.Settings.model_fields}
        return rounds.Settings.model_validate(values).make_site(str(name), Path(), of_checks=of_checks)

    def make_handler(question: rounds.Question, compute: Compute) -> Handler:
        def handle(message: Message, context: Context) -> Message:
            model = _read_arrays(message)
            sent = question.answer(
                read_field(message, question.asked, beside=ARRAYS),
                lambda plan: compute(message, context, plan),
                lambda plan: find_site(context, of_checks=question is rounds.CHECK),
                model=model_digest(model) if model else None,
                log=log,
                # Lower in a simulation, which Ray runs.
                log_level=logging.DEBUG if "ray" in sys.modules else logging.INFO,
            )
            if isinstance(sent, rounds.Failure):
                return _reply_failure(sent, message)
            return Message(RecordDict({RECORD: ConfigRecord({question.answered: sent})}), reply_to=message)

        return handle

    functions = {rounds.CALIBRATE: scores_fn, rounds.CHECK: check_scores_fn}
    return {
        question.name: make_handler(question, _bind_by_name(function))
        for question, function in functions.items()
        if function is not None
    }


def sealed(message: Message, context: Context, call_next: Handler) -> Message:
    """Keep the text of exceptions at the site: a Flower mod, ``ClientApp(mods=[sealed])``.

    Flower itself sends the text of an exception in a handler to the server. With this mod a fixed code is
    sent, and the exception goes to the site's log. No mod covers exceptions of a module's import or of a
    lifespan function: load data inside the handlers.

    Parameters
    ----------
    message, context, call_next : Message, Context and callable
        As Flower calls a mod.

    Returns
    -------
    Message
        The handler's reply, or the code.

    Examples
    --------
    >>> from flwr.clientapp import ClientApp
    >>> app = ClientApp(mods=[sealed])
    """
    try:
        return call_next(message, context)
    except BaseException:
        return _reply_failure(rounds.log_and_mask(rounds.Failure.SITE, log), message)


_OFFERED = ("arrays", "context", "message", "parameters", "plan")
_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _bind_by_name(scores_fn: Callable[..., Any]) -> Compute:
    """Return a function that calls a user's with the arguments that its parameters name."""
    signature = inspect.signature(scores_fn)
    needed = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.name in _OFFERED
        or (parameter.default is parameter.empty and parameter.kind not in _COLLECTING)
    ]
    names = needed
    if not set(names) & set(_OFFERED) and 1 <= len(names) <= 2:  # names of their own: Flower's order
        names = ["message", "context"][-len(names) :]
    if not set(names) <= set(_OFFERED):
        raise TypeError(f"scores_fn may ask for {', '.join(_OFFERED)}, got parameters {names}")

    def call(message: Message, context: Context, plan: Plan) -> Any:
        arrays = _read_arrays(message)
        offers = {"arrays": arrays, "context": context, "message": message, "plan": plan}
        if "parameters" in names:
            offers["parameters"] = arrays.to_numpy_ndarrays()
        values = {parameter: offers[name] for parameter, name in zip(needed, names, strict=True)}
        bound = inspect.BoundArguments(signature, values)
        return scores_fn(*bound.args, **bound.kwargs)

    return call


# -- the server ---------------------------------------------------------------------------------------------


def calibrate(
    grid: Grid,
    plan: Plan,
    arrays: ArrayRecord | None = None,
    timeout: float = 300.0,
    *,
    reports: str | Path | None = None,
    nodes: Chosen | None = None,
    wait: float = 10.0,
    on_refused: Literal["raise", "skip"] = "skip",
) -> Calibration:
    """Ask every connected site for its report, once, and turn the reports into a Calibration.

    A site that fails, hangs or is not connected counts as missing, and the votes are solved again for the
    sites that answered. The result is the same, byte for byte, as that of ``fedconformal.calibrate`` for the
    same reports.

    Parameters
    ----------
    grid : Grid
        Flower's grid, as the ServerApp's main function gets it.
    plan : Plan
        The plan to be answered.
    arrays : ArrayRecord, optional
        The model, for sites that need it to compute their scores.
    timeout : float
        Seconds until a site that has not answered counts as missing. In a deployment SuperNodes look for
        questions, and this function for replies, every three seconds: allow ten at least.
    reports : str or Path, optional
        A folder in which reports are kept as they arrive. Given again after an interruption, the round is
        resumed: sites that have answered this plan under this model are not asked, or charged, again, and
        nobody is once the round is complete.
    nodes : callable, or collection of int or str, optional
        Nodes to ask: a function of Flower's NodeInfo (``node_id``, ``name``, ...), or numbers or registered
        names; all by default.
    wait : float
        Seconds to wait for as many sites as the plan has; then the round starts with those that are
        connected.
    on_refused : {"skip", "raise"}
        Skip reports that do not answer the plan and list them in the calibration, or raise
        RefusedReportsError.

    Returns
    -------
    Calibration
        The thresholds, and the missing sites.

    Examples
    --------
    In the main function of a ServerApp, whose ``grid`` reaches three sites with 80 cases each:

    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=3, n_points=80)
    >>> calibration = calibrate(grid, plan, timeout=60)
    >>> calibration.n_answers, calibration.missing
    (3, ())
    """
    rounds.check_options(timeout, wait=wait, on_refused=on_refused)
    model = model_digest(arrays) if arrays else None
    folder = None if reports is None else rounds.Folder(reports, plan, model=model)
    is_over = folder is not None and folder.is_complete
    connected = {} if is_over else _wait_for_nodes(grid, nodes, plan, wait)
    collection = rounds.ReportCollection(plan, connected, engine="Flower", log=log, folder=folder)
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
) -> Assessment:
    """Ask every connected site for the number of its new cases that a calibration covers.

    Sites whose app has a ``check_scores_fn`` verify the calibration and send one count for each level, with
    noise if they choose so; the others send a code. The log names the sites that did not answer.

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

    Examples
    --------
    In the same main function, where the sites' apps have a ``check_scores_fn``:

    >>> import fedconformal as fc
    >>> calibration = calibrate(grid, fc.plan(n_sites=3, n_points=80), timeout=60)
    >>> assessment = check(grid, calibration, timeout=60)
    >>> [(row.site, row.check.n) for row in assessment.rows]
    [('north', 200), ('south', 200), ('west', 200)]
    """
    rounds.check_options(timeout, wait=wait)
    connected = _wait_for_nodes(grid, nodes, calibration.whole.plan, wait)
    collection = rounds.CheckCollection(calibration, connected, period=period, engine="Flower", log=log)
    _ask_nodes(grid, collection, arrays, timeout)
    return collection.assess(timeout=timeout)


def _wait_for_nodes(grid: Grid, chosen: Chosen | None, plan: Plan, wait: float) -> dict[int, str]:
    """Wait until enough of the chosen nodes are connected; return the registered name, if any, of each."""
    wanted = plan.n_sites or 1
    if isinstance(chosen, str) or not (chosen is None or callable(chosen) or isinstance(chosen, Collection)):
        raise TypeError(f"nodes must be a function of a node, or numbers or names of nodes, got {chosen!r}")
    if isinstance(chosen, Collection):
        wanted = min(wanted, len(chosen)) if wanted > 1 else len(chosen)

    def is_chosen(node: NodeInfo) -> bool:
        if callable(chosen):
            return chosen(node)
        return chosen is None or node.node_id in chosen or (node.name != "" and node.name in chosen)

    deadline = time.monotonic() + wait
    while True:
        nodes = {node.node_id: node.name for node in grid.get_nodes() if is_chosen(node)}
        if len(nodes) >= wanted:
            return nodes
        if time.monotonic() >= deadline:
            log.warning("sites connected: %d, wanted: %d; the round starts now", len(nodes), wanted)
            return nodes
        time.sleep(min(0.5, max(0.0, deadline - time.monotonic())))


def _ask_nodes(
    grid: Grid,
    collection: rounds.ReportCollection[int] | rounds.CheckCollection[int],
    arrays: ArrayRecord | None,
    timeout: float,
) -> None:
    """Ask the nodes that have not answered, and hand every reply to the collection as it arrives.

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
    # An error reply may name the server as its source: only the question identifies the node.
    nodes = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
    for reply in _pull_replies(grid, sent & set(nodes), time.monotonic() + timeout):
        node = nodes.get(reply.metadata.reply_to_message_id)
        if reply.has_error():
            collection.fail(node, reply.error.code)
        else:
            collection.receive(node, read_field(reply, question.answered))


def _pull_replies(grid: Grid, questions: set[str], deadline: float) -> Iterator[Message]:
    """Yield the replies to these questions until all are there or the time is over."""
    arrived: queue.SimpleQueue[tuple[set[str], Iterable[Message] | Exception]] = queue.SimpleQueue()
    unanswered, fetching, start = set(questions), set[str](), time.monotonic()

    def fetch(portion: set[str]) -> None:
        try:
            arrived.put((portion, grid.pull_messages(portion)))
        except Exception as error:
            arrived.put((portion, error))

    while unanswered and time.monotonic() < deadline:
        waiting = sorted(unanswered - fetching)
        for offset in range(min(_PORTIONS, len(waiting))):
            portion = set(waiting[offset::_PORTIONS])
            fetching |= portion
            thread = threading.Thread(target=fetch, args=(portion,), daemon=True)
            thread.start()
            thread.join(max(0.0, min(_PATIENCE, deadline - time.monotonic())))
        while not arrived.empty():
            portion, replies = arrived.get()
            fetching -= portion
            if isinstance(replies, Exception):
                raise replies
            for reply in replies:
                unanswered.discard(reply.metadata.reply_to_message_id)
                yield reply
        if unanswered:
            now = time.monotonic()
            pause = min(max(_SHORTEST, _SHARE * (now - start)), _LONGEST)
            time.sleep(max(0.0, min(pause, deadline - now)))


def train(grid: Grid, context: Context, server_fn: Callable[[Context], ServerAppComponents]) -> ArrayRecord:
    """Run the training of an app with a ``server_fn`` inside a main function, and return the model.

    Examples
    --------
    In the main function of a ServerApp, which gets ``grid`` and ``context``; without any round here, so that
    the model is the initial one:

    >>> import numpy as np
    >>> from flwr.common import ndarrays_to_parameters
    >>> from flwr.server import ServerAppComponents, ServerConfig
    >>> from flwr.server.strategy import FedAvg
    >>> def server_fn(context):
    ...     strategy = FedAvg(initial_parameters=ndarrays_to_parameters([np.zeros(3)]))
    ...     return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=0))
    >>> train(grid, context, server_fn).to_numpy_ndarrays()
    [array([0., 0., 0.])]
    """
    parts = server_fn(context)
    server = parts.server or Server(
        client_manager=parts.client_manager or SimpleClientManager(), strategy=parts.strategy or FedAvg()
    )
    components = ServerAppComponents(server=server, config=parts.config)
    ServerApp(server_fn=lambda _: components)(grid, context)
    return ArrayRecord(parameters_to_ndarrays(server.parameters))
