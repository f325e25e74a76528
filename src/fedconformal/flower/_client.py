"""Site's half: handlers of a ClientApp.

Flower starts a process for every message to a deployed site, of training too, and every
one of them imports this module: it loads nothing that a client app has not loaded
anyway before a plan or a calibration arrives.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp

    from fedconformal import rounds
    from fedconformal.documents import Calibration, Plan, Thresholds

log = logging.getLogger("flwr.fedconformal")

RECORD, ARRAYS = "conformal", "arrays"
"""Names of a message's records: our own, and the model."""

# `rounds.Failure.SITE`, also where `rounds` cannot be imported.
_SITE_FAILED = Error(100, "the site failed; its own log says why")
_HERE = Path()
Handler = Callable[[Message, Context], Message]
Compute = Callable[[Message, Context, "Plan"], Any]


def read_field(message: Message, name: str, *, beside: str | None = None) -> object:
    """Return the only field of our record, of any type; one record may come beside
    it.
    """
    from fedconformal import rounds

    record: Mapping[str, Any] = message.content.config_records.get(RECORD) or {}
    return rounds.extract_field(
        record, name, (key for key in message.content if key not in (RECORD, beside))
    )


def calibration_record(calibration: Calibration) -> ConfigRecord:
    """Return the record that brings the thresholds of a calibration to sites, in a
    message of any type.

    Parameters
    ----------
    calibration : Calibration
        Result of `calibrate`.

    Returns
    -------
    ConfigRecord
        For the content of a message, under any name; also an ``evaluate_config``.

    Examples
    --------
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize(
    ...     {"A": range(40), "B": range(60)}, score="absolute"
    ... )
    >>> list(calibration_record(calibration))
    ['calibration']
    """
    return ConfigRecord({"calibration": calibration.sets.model_dump_json()})


def read_calibration(message: Message) -> Thresholds:
    """Read the thresholds that a message brings, for prediction sets at a site.

    Parameters
    ----------
    message : Message
        With a `calibration_record` in its content.

    Returns
    -------
    Thresholds
        With the methods ``predict_set``, ``predict_interval`` and ``threshold_of`` of a
        calibration.

    Raises
    ------
    ValueError
        If there are none.

    Examples
    --------
    In a handler of a ClientApp:

    >>> def sets(message, context):
    ...     calibration = read_calibration(message)
    ...     return calibration.predict_set([[0.9, 0.1], [0.4, 0.6]])
    """
    from fedconformal.documents import Thresholds

    for record in message.content.config_records.values():
        if isinstance(text := record.get("calibration"), str):
            return Thresholds.model_validate_json(text)
    raise ValueError("the message carries no calibration: see calibration_record")


def _read_arrays(message: Message) -> ArrayRecord:
    """Return the model that came with the question; empty if none did."""
    return message.content.array_records.get(ARRAYS) or ArrayRecord()


def add_conformal(
    client_app: ClientApp,
    scores_fn: Callable[..., Any],
    *,
    check_scores_fn: Callable[..., Any] | None = None,
    settings: Callable[[Context], Mapping[str, Any]] | None = None,
) -> None:
    """Let a ClientApp answer plans: ``scores_fn`` returns the site's cases, one report
    leaves.

    The report is written to the site's log before it leaves (in a simulation at the
    level DEBUG). If anything fails, a fixed code leaves instead (``Failure``), and the
    exception stays in the site's log.

    Parameters
    ----------
    client_app : ClientApp
        The app; its other handlers stay as they are. One with a ``client_fn`` takes no
        handlers: give it ``mods=[conformal_mod(scores_fn)]``, a function with the same
        options.
    scores_fn : callable
        Returns the calibration cases of this site: a mapping with ``truth`` and
        ``prediction``, of which the plan's score is computed here, or with ``scores``
        and the ``score`` that they are; and ``groups`` for a plan with groups by label.
        For a plan that fixes no score also an array of scores, or a pair of scores and
        groups. It is given those of ``message``, ``context``, ``arrays`` (the model
        that the server sent, an ArrayRecord), ``parameters`` (the same as a list of
        numpy arrays) and ``plan`` that its parameters name; with parameters of other
        names, ``(message, context)``, or ``(context)`` if it has one.
    check_scores_fn : callable, optional
        The same for new cases, on which the site checks a calibration: the number of
        covered cases leaves. Without this function no check is answered.
    settings : callable, optional
        The site's settings from a context; by default the node's configuration.
        ``site`` is its name (else ``site-N`` with its ``partition-id`` N, else
        ``node-N`` with the node's number); ``signing-key``, ``ledger`` and ``policy``
        are files, ``dataset`` the name of its data in the ledger, and ``check-epsilon``
        and ``check-dataset`` make its checks private. With a ledger a plan that is not
        private is refused, unless the policy has ``private_only = false``.

    Raises
    ------
    TypeError
        If ``scores_fn`` has parameters that cannot be given.
    ValueError
        If the app has a ``client_fn``, or answers plans already.

    Examples
    --------
    In ``client_app.py``; the site predicts with the model that comes with the plan:

    >>> import numpy as np
    >>> from flwr.clientapp import ClientApp
    >>> app = ClientApp()
    >>> def cases(context, parameters):
    ...     X, y = np.ones((80, 3)), np.arange(80.0)  # this site's calibration cases
    ...     return {"truth": y, "prediction": X @ parameters[0]}
    >>> add_conformal(app, cases)
    """
    handlers = _make_handlers(scores_fn, check_scores_fn, settings)
    try:
        for action, reply in handlers.items():
            client_app.query(action)(reply)
    except ValueError as error:
        from fedconformal._text import one_line

        raise ValueError(
            "this ClientApp takes no more handlers: one with a client_fn answers plans"
            " as ClientApp(client_fn, mods=[conformal_mod(scores_fn)]); Flower says:"
            f" {one_line(str(error), 200)}"
        ) from None


def conformal_mod(
    scores_fn: Callable[..., Any], **options: Any
) -> Callable[[Message, Context, Handler], Message]:
    """Answer plans in an app with a ``client_fn``: a Flower mod, with the arguments of
    `add_conformal`.

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

    def make_handler(kind: str, function: Callable[..., Any]) -> Handler:
        compute = _bind_by_name(function)

        def answer(message: Message, context: Context) -> Message:
            from fedconformal import rounds
            from fedconformal.protocol import model_digest

            question: rounds.Question = getattr(rounds, kind)
            config = settings or (lambda context: context.node_config)
            model = _read_arrays(message)
            sent = question.answer(
                read_field(message, question.asked, beside=ARRAYS),
                lambda plan: compute(message, context, plan),
                lambda plan: _find_site(
                    context, config(context), of_checks=question is rounds.CHECK
                ),
                model=model_digest(model) if model else None,
                settings=_list_settings(message, context),
                log=log,
                # Lower in a simulation, which Ray runs.
                log_level=logging.DEBUG if "ray" in sys.modules else logging.INFO,
            )
            if isinstance(sent, rounds.Failure):
                return Message(
                    Error(code=int(sent), reason=sent.meaning), reply_to=message
                )
            return Message(
                RecordDict({RECORD: ConfigRecord({question.answered: sent})}),
                reply_to=message,
            )

        return lambda message, context: sealed(message, context, answer)

    # The questions' names in `rounds`, which is not loaded yet, and in messages.
    functions = {
        ("CALIBRATE", "conformal"): scores_fn,
        ("CHECK", "conformal_check"): check_scores_fn,
    }
    return {
        name: make_handler(kind, function)
        for (kind, name), function in functions.items()
        if function is not None
    }


def _list_settings(message: Message, context: Context) -> dict[str, Any]:
    """Return what a site's function can read besides question and model, and the server
    chose.
    """
    settings: dict[str, Any] = {}
    if message.metadata.group_id:
        settings["group"] = message.metadata.group_id
    if context.run_config:
        settings["run"] = dict(context.run_config)
    return settings


def _find_site(
    context: Context, config: Mapping[str, Any], *, of_checks: bool
) -> rounds.Site:
    """Return the site that answers, from its settings."""
    from fedconformal.rounds import Settings

    number = config.get("partition-id")
    name = config.get(
        "site", f"node-{context.node_id}" if number is None else f"site-{number}"
    )
    values = {
        field: config.get(field.replace("_", "-")) for field in Settings.model_fields
    }
    return Settings.model_validate(values).make_site(
        str(name), _HERE, of_checks=of_checks
    )


def sealed(message: Message, context: Context, call_next: Handler) -> Message:
    """Keep the text of exceptions at the site: a Flower mod,
    ``ClientApp(mods=[sealed])``.

    Flower itself sends the text of an exception in a handler to the server. With this
    mod a fixed code is sent, and the exception goes to the site's log. No mod covers
    exceptions of a module's import or of a lifespan function: load data inside the
    handlers.

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
        with contextlib.suppress(
            BaseException
        ):  # an exception of a log handler must not travel either
            log.exception("the server receives only: %s", _SITE_FAILED.reason)
        return Message(_SITE_FAILED, reply_to=message)


_OFFERED = ("arrays", "context", "message", "parameters", "plan")
_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _bind_by_name(scores_fn: Callable[..., Any]) -> Compute:
    """Return a function that calls a user's with the arguments that its parameters
    name.
    """
    signature = inspect.signature(scores_fn)
    needed = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.name in _OFFERED
        or (parameter.default is parameter.empty and parameter.kind not in _COLLECTING)
    ]
    names = needed
    if (
        not set(names) & set(_OFFERED) and 1 <= len(names) <= 2
    ):  # names of their own: Flower's order
        names = ["message", "context"][-len(names) :]
    if not set(names) <= set(_OFFERED):
        raise TypeError(
            f"scores_fn may ask for {', '.join(_OFFERED)}, got parameters {names}"
        )

    def call(message: Message, context: Context, plan: Plan) -> Any:
        arrays = _read_arrays(message)
        offers = {
            "arrays": arrays,
            "context": context,
            "message": message,
            "plan": plan,
        }
        if "parameters" in names:
            offers["parameters"] = arrays.to_numpy_ndarrays()
        values = {
            parameter: offers[name]
            for parameter, name in zip(needed, names, strict=True)
        }
        bound = inspect.BoundArguments(signature, values)
        return scores_fn(*bound.args, **bound.kwargs)

    return call
