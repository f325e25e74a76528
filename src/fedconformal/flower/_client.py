"""The site's side: a handler that answers a plan, and lets nothing else out."""

import contextlib
import inspect
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from numpy.typing import ArrayLike

from fedconformal.documents import Plan
from fedconformal.flower import _messages
from fedconformal.flower._messages import ACTION, Failure
from fedconformal.privacy import Ledger
from fedconformal.privacy._ledger import LedgerError, fingerprint
from fedconformal.signing import SigningKey
from fedconformal.site import report

log = logging.getLogger("flwr.fedconformal")


def add_conformal(
    client_app: ClientApp,
    scores_fn: Callable[..., ArrayLike],
    *,
    site: Callable[[Context], str] | None = None,
    key: Callable[[Context], SigningKey | None] | None = None,
    ledger: Callable[[Context], Ledger | None] | None = None,
    dataset: Callable[[Context], str | None] | None = None,
) -> None:
    """Let a ClientApp answer plans: ``scores_fn`` computes the site's scores, one report leaves.

    The report is written to the site's log before it leaves (in a simulation at the level DEBUG). If
    anything goes wrong, a fixed code leaves instead (``Failure``), and the exception stays in the site's log.

    Parameters
    ----------
    client_app : the app; its other handlers are left as they are.
    scores_fn : returns the calibration scores of this site. It is given those of ``message``, ``context``,
        ``arrays`` (the model that the server sent, an ArrayRecord) and ``plan`` that its parameters name;
        with parameters of other names, ``(message, context)``, or ``(context)`` if it has one.
    site : the site's name; by default ``site`` of the node's configuration, else ``site-N`` with its
        ``partition-id`` N, else ``node-N`` with the node's number.
    key : signs the report; by default the key in the file ``signing-key`` of the node's configuration.
    ledger, dataset : for private plans, the site's account and what its data are called in it; by default
        the file ``ledger`` and the name ``dataset`` of the node's configuration.
    """
    compute = _calling(scores_fn)

    @client_app.query(ACTION)
    def answer(message: Message, context: Context) -> Message:
        stage = Failure.PLAN
        try:
            plan = _messages.plan_in(message)
            stage = Failure.SCORES
            scores = np.asarray(compute(message, context, plan))
            stage = Failure.REPORT
            made = report(
                plan,
                scores,
                site=(site or site_name)(context),
                key=(key or _key)(context),
                **(_account(message, context, scores) if plan.privacy is not None else {}),
            )
            log.log(_loudness(), "this is everything that leaves the site: %s", made.to_json(indent=None))
            return Message(_messages.answer(made), reply_to=message)
        except LedgerError:
            return _failed(message, Failure.BUDGET)
        except BaseException:
            return _failed(message, stage)

    def _account(message: Message, context: Context, scores: Any) -> dict[str, Any]:
        """Where a private answer is charged. Scores under a new model are new, but the budget is the same."""
        book, name = (ledger or _ledger)(context), (dataset or _dataset)(context)
        model = _messages.arrays_in(message)
        if book is not None and name is not None and model:
            book.accept_data(name, fingerprint(scores), reason=f"scores under the model {model.object_id}")
        return {"ledger": book, "dataset": name}


def sealed(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
    """A Flower mod that keeps the text of exceptions at the site: ``ClientApp(mods=[sealed])``.

    Flower itself sends the text of whatever a handler raises to the server. With this mod a fixed code is
    sent, and the exception goes to the site's log. What a module raises while it is imported, or a lifespan
    function, is outside of any mod: load data inside the handlers.
    """
    try:
        return call_next(message, context)
    except BaseException:
        return _failed(message, Failure.SITE)


def _failed(message: Message, failure: Failure) -> Message:
    with contextlib.suppress(BaseException):  # not even a log handler's own trouble may travel
        log.exception("the server is told only: %s", failure.meaning)
    return Message(failure.error(), reply_to=message)


def _loudness() -> int:
    """At a site the log shows what leaves; in a simulation, which Ray runs, there is nobody to look."""
    return logging.DEBUG if "ray" in sys.modules else logging.INFO


def _calling(scores_fn: Callable[..., ArrayLike]) -> Callable[[Message, Context, Plan], ArrayLike]:
    """How to call a user's function, from the names of its parameters."""
    offers: dict[str, Callable[[Message, Context, Plan], Any]] = {
        "arrays": lambda message, context, plan: _messages.arrays_in(message),
        "context": lambda message, context, plan: context,
        "message": lambda message, context, plan: message,
        "plan": lambda message, context, plan: plan,
    }
    asked = [
        parameter
        for parameter in inspect.signature(scores_fn).parameters.values()
        if parameter.name in offers
        or (parameter.default is parameter.empty and parameter.kind not in _COLLECTING)
    ]
    names = [parameter.name for parameter in asked]
    if not set(names) & set(offers) and 1 <= len(names) <= 2:  # names of their own: Flower's order
        names = ["context"] if len(names) == 1 else ["message", "context"]
    if not set(names) <= set(offers):
        raise TypeError(f"scores_fn may ask for {', '.join(offers)}, got parameters {names}")

    def call(message: Message, context: Context, plan: Plan) -> ArrayLike:
        positional, keywords = [], {}
        for parameter, name in zip(asked, names, strict=True):
            value = offers[name](message, context, plan)
            if parameter.kind is parameter.KEYWORD_ONLY or parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                keywords[parameter.name] = value
            else:
                positional.append(value)
        return scores_fn(*positional, **keywords)

    return call


_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


# -- what the node's configuration says --------------------------------------------------------------------


def site_name(context: Context) -> str:
    """What a site is called: ``site`` of the node's configuration, else its partition, else its number."""
    given = context.node_config
    if "site" in given:
        return str(given["site"])
    return f"site-{given['partition-id']}" if "partition-id" in given else f"node-{context.node_id}"


def _key(context: Context) -> SigningKey | None:
    path = context.node_config.get("signing-key")
    return None if path is None else SigningKey.from_pem(Path(str(path)).read_bytes())


def _ledger(context: Context) -> Ledger | None:
    path = context.node_config.get("ledger")
    return None if path is None else Ledger(str(path))


def _dataset(context: Context) -> str | None:
    name = context.node_config.get("dataset")
    return None if name is None else str(name)
