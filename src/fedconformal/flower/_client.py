"""Site side: a handler that answers a plan, and discloses nothing else."""

import inspect
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedconformal._text import one_line
from fedconformal.documents import Plan, SigningKey
from fedconformal.flower import _messages
from fedconformal.flower._messages import CALIBRATE, CHECK, Query, model_digest
from fedconformal.privacy import Ledger
from fedconformal.protocol import SitePolicy
from fedconformal.rounds import Failure, Site, answer, answer_check, log_and_mask, read_key

log = logging.getLogger("flwr.fedconformal")

T = TypeVar("T")
Handler = Callable[[Message, Context], Message]


def add_conformal(
    client_app: ClientApp,
    scores_fn: Callable[..., Any],
    *,
    check_scores_fn: Callable[..., Any] | None = None,
    site: Callable[[Context], str] | None = None,
    key: Callable[[Context], SigningKey | None] | None = None,
    ledger: Callable[[Context], Ledger | None] | None = None,
    dataset: Callable[[Context], str | None] | None = None,
    policy: Callable[[Context], SitePolicy | None] | None = None,
) -> None:
    """Let a ClientApp answer plans: ``scores_fn`` computes the site's scores, one report leaves.

    The report is written to the site's log before it leaves (in a simulation at the level DEBUG). If anything
    fails, a fixed code leaves instead (``Failure``), and the exception stays in the site's log.

    Parameters
    ----------
    client_app : ClientApp
        The app; its other handlers stay as they are. For one with a ``client_fn`` see `conformal_mod`.
    scores_fn : callable
        Returns the calibration scores of this site, or a pair of scores and labels: the group, or the true
        class, of each, which a plan with groups needs. It is given those of ``message``, ``context``,
        ``arrays`` (the model that the server sent, an ArrayRecord), ``parameters`` (the same as a list of
        numpy arrays) and ``plan`` that its parameters name; with parameters of other names,
        ``(message, context)``, or ``(context)`` if it has one.
    check_scores_fn : callable, optional
        The same for new cases, on which the site checks a calibration: the number of covered cases leaves.
        With ``check-epsilon`` in the node's configuration the answer is private, and charged to the ledger's
        ``check-dataset``. Without this function no check is answered.
    site : callable, optional
        The site's name from a context; by default ``site`` of the node's configuration, else ``site-N`` with
        its ``partition-id`` N, else ``node-N`` with the node's number.
    key : callable, optional
        Signs the report; by default the key in the file ``signing-key`` of the node's configuration.
    ledger, dataset : callable, optional
        For private plans, the site's account and the name of its data in it; by default the file ``ledger``
        and the name ``dataset`` of the node's configuration. A plan that is not private is then refused,
        unless the policy has ``private_only = false``.
    policy : callable, optional
        Limits on what the site discloses, regardless of the plan; by default the file ``policy`` of the
        node's configuration, else safe defaults.

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
    try:
        handlers = _make_handlers(scores_fn, check_scores_fn, site, key, ledger, dataset, policy)
        for query, reply in handlers.items():
            client_app.query(query.action)(reply)
    except ValueError as error:
        raise ValueError(
            "this ClientApp takes no more handlers: one with a client_fn answers plans as "
            f"ClientApp(client_fn, mods=[conformal_mod(scores_fn)]); Flower says: {one_line(str(error), 200)}"
        ) from None


def conformal_mod(
    scores_fn: Callable[..., Any], **options: Any
) -> Callable[[Message, Context, Handler], Message]:
    """Answer plans in an app with a ``client_fn``: ``ClientApp(client_fn, mods=[conformal_mod(...)])``.

    Parameters
    ----------
    scores_fn : callable
        As for `add_conformal`.
    **options : check_scores_fn, site, key, ledger, dataset, policy
        As for `add_conformal`.

    Returns
    -------
    callable
        A Flower mod that answers plans, and leaves every other message to the app.

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
    by_type = {query.message_type: reply for query, reply in handlers.items()}

    def mod(message: Message, context: Context, call_next: Handler) -> Message:
        return by_type.get(message.metadata.message_type, call_next)(message, context)

    return mod


def _make_handlers(
    scores_fn: Callable[..., Any],
    check_scores_fn: Callable[..., Any] | None = None,
    site: Callable[[Context], str] | None = None,
    key: Callable[[Context], SigningKey | None] | None = None,
    ledger: Callable[[Context], Ledger | None] | None = None,
    dataset: Callable[[Context], str | None] | None = None,
    policy: Callable[[Context], SitePolicy | None] | None = None,
) -> dict[Query, Handler]:
    """Return the handler of each kind of query."""

    def find_site(context: Context, *, of_checks: bool) -> Site:
        own_data = dataset(context) if dataset else _read_setting(context, "dataset", str)
        return Site(
            (site or site_name)(context),
            key(context) if key else _read_setting(context, "signing-key", lambda path: read_key(Path(path))),
            ledger(context) if ledger else _read_setting(context, "ledger", Ledger),
            _read_setting(context, "check-dataset", str) if of_checks else own_data,
            policy(context) if policy else _read_setting(context, "policy", SitePolicy.read),
            _read_setting(context, "check-epsilon", float),
        )

    def make_handler(query: Query, compute: Callable[[Message, Context, Plan], Any]) -> Handler:
        is_check = query is CHECK

        def handle(message: Message, context: Context) -> Message:
            model = _messages.read_arrays(message)
            made = (answer_check if is_check else answer)(
                query.read_question(message),
                lambda plan: compute(message, context, plan),
                lambda plan: find_site(context, of_checks=is_check),
                model=model_digest(model) if model else None,
                log=log,
                # Lower in a simulation, which Ray runs.
                log_level=logging.DEBUG if "ray" in sys.modules else logging.INFO,
            )
            return query.reply(made, message)

        return handle

    handlers = {CALIBRATE: make_handler(CALIBRATE, _bind_by_name(scores_fn))}
    if check_scores_fn is not None:
        handlers[CHECK] = make_handler(CHECK, _bind_by_name(check_scores_fn))
    return handlers


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
        return _messages.reply_failure(log_and_mask(Failure.SITE, log), message)


def _bind_by_name(scores_fn: Callable[..., Any]) -> Callable[[Message, Context, Plan], Any]:
    """Return a function that calls a user's with the arguments that its parameters name."""
    offers: dict[str, Callable[[Message, Context, Plan], Any]] = {
        "arrays": lambda message, context, plan: _messages.read_arrays(message),
        "context": lambda message, context, plan: context,
        "message": lambda message, context, plan: message,
        "parameters": lambda message, context, plan: _messages.read_arrays(message).to_numpy_ndarrays(),
        "plan": lambda message, context, plan: plan,
    }
    signature = inspect.signature(scores_fn)
    needed = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.name in offers
        or (parameter.default is parameter.empty and parameter.kind not in _COLLECTING)
    ]
    names = [parameter.name for parameter in needed]
    if not set(names) & set(offers) and 1 <= len(names) <= 2:  # names of their own: Flower's order
        names = ["context"] if len(names) == 1 else ["message", "context"]
    if not set(names) <= set(offers):
        raise TypeError(f"scores_fn may ask for {', '.join(offers)}, got parameters {names}")

    def call(message: Message, context: Context, plan: Plan) -> Any:
        values = {
            parameter.name: offers[name](message, context, plan)
            for parameter, name in zip(needed, names, strict=True)
        }
        bound = inspect.BoundArguments(signature, values)
        return scores_fn(*bound.args, **bound.kwargs)

    return call


_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


# -- the node's configuration -----------------------------------------------------------------------------


def site_name(context: Context) -> str:
    """Return the name of a site: ``site`` of the node's configuration, else its partition, else its number.

    Parameters
    ----------
    context : Context
        As Flower hands it to a handler.

    Returns
    -------
    str
        The name.

    Examples
    --------
    >>> from flwr.app import Context, RecordDict
    >>> site_name(Context(1, 7, {"site": "north"}, RecordDict(), {}))
    'north'
    >>> site_name(Context(1, 7, {"partition-id": 3}, RecordDict(), {}))
    'site-3'
    """
    node = context.node_config
    if "site" in node:
        return str(node["site"])
    return f"site-{node['partition-id']}" if "partition-id" in node else f"node-{context.node_id}"


def _read_setting(context: Context, name: str, read: Callable[[str], T]) -> T | None:
    """Return an entry of the node's configuration, if it is there."""
    text = context.node_config.get(name)
    return None if text is None else read(str(text))
