"""A strategy that calibrates the model of another one after its last round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp.strategy import Result, Strategy

from fedconformal import protocol
from fedconformal._files import write_text
from fedconformal._text import count
from fedconformal.documents import Calibration, Plan
from fedconformal.flower._client import log
from fedconformal.flower._server import (
    calibrate,
    check_path,
    check_round,
    find_path,
    read_round,
)

if TYPE_CHECKING:
    from flwr.serverapp import Grid

_ROUND = [*signature(calibrate).parameters][3:]
_OBJECTS = {"curve", "groups", "keys", "mixture", "nodes", "privacy", "terms"}
KEYS = {*signature(protocol.plan).parameters, *_ROUND, "output"} - _OBJECTS
"""Options that a run's configuration may have, where dashes stand for underscores."""


@dataclass(repr=False)
class ConformalResult(Result):
    """Result of a strategy, with the calibration of ``arrays``, or the error that
    prevented it.
    """

    outcome: Calibration | Exception = field(kw_only=True)

    @property
    def calibration(self) -> Calibration:
        """The calibration; if it failed, the error is raised here, where the model is
        not lost.
        """
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Conformal(Strategy):
    """Strategy that runs another one and calibrates its final model.

    Parameters
    ----------
    strategy : Strategy
        Trains and evaluates, with whatever ``start`` it has.
    plan : Plan, optional
        The plan to be answered. Left out, it is made of the options, and names the
        model.
    output : str or Path, optional
        File for the calibration, which is overwritten; a relative path is one in the
        app's folder.
    **options
        Of ``fedconformal.plan``, such as ``confidence_level`` and ``score``, and of
        `calibrate`, such as ``timeout`` and ``reports``.

    Raises
    ------
    TypeError, ValueError
        If an option is unknown or wrong, before anything is trained.

    Examples
    --------
    In the main function of a ServerApp, whose ``grid`` reaches three sites; without any
    training here:

    >>> import numpy as np
    >>> from flwr.app import ArrayRecord
    >>> from flwr.serverapp.strategy import FedAvg
    >>> strategy = Conformal(FedAvg(), confidence_level=0.9, n_sites=3)
    >>> result = strategy.start(grid, ArrayRecord([np.zeros(3)]), num_rounds=0)
    >>> result.calibration
    <Calibration: threshold 3.01596 at level 0.9, 3 of 3 sites answered>
    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        plan: Plan | None = None,
        output: str | Path | None = None,
        **options: Any,
    ) -> None:
        self.strategy, self.output = strategy, output
        self._options = {name: options.pop(name) for name in _ROUND if name in options}
        check_round(**self._options)
        check_path("output", output)
        if plan is not None and options:
            raise TypeError(
                "plan must be left out with options of a plan, got"
                f" {', '.join(options)}"
            )
        self.plan = protocol.plan(**options) if plan is None else plan
        self._names_model = plan is None and self.plan.terms.model is None
        self._is_any_plan = plan is None and not options

    @classmethod
    def from_config(
        cls, strategy: Strategy, config: Mapping[str, Any], **options: Any
    ) -> Conformal:
        """Return the strategy with options of a run's configuration, such as
        ``confidence-level``.

        Parameters
        ----------
        strategy : Strategy
            As for the class.
        config : mapping
            ``context.run_config``. Keys that are no option of this class are left to
            the app, and the log has those that are; an empty text is an option left
            out.
        **options
            Further options, which the configuration overrides.

        Returns
        -------
        Conformal
        """
        named = {
            key.replace("-", "_"): value for key, value in config.items() if value != ""
        }
        taken = {name: named[name] for name in sorted(KEYS & named.keys())}
        log.info(
            "options of the calibration in the run's configuration: %s", taken or "none"
        )
        return cls(strategy, **{**options, **taken})

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        *args: Any,
        **options: Any,
    ) -> ConformalResult:
        """Run the strategy, then one calibration round.

        Parameters
        ----------
        grid : Grid
            As for the ``start`` of the other strategy.
        initial_arrays : ArrayRecord
            The model to begin with.
        num_rounds : int
            Rounds of training; with 0 the initial model is calibrated.
        *args, **options
            As for the ``start`` of the other strategy.

        Returns
        -------
        ConformalResult
            The strategy's result with ``calibration``, and its figures among
            ``evaluate_metrics_clientapp`` of the last round. If no round of training
            gave a model, nothing is calibrated.

        Raises
        ------
        ValueError
            If ``reports`` is the folder of a round with a plan other than the one that
            was given, or that the options of a plan make.
        """
        output = None if self.output is None else find_path(grid, self.output)
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
        plan, resumed = self.plan, read_round(grid, self._options.get("reports"))
        if resumed is None:
            result = self.strategy.start(
                grid, initial_arrays, num_rounds, *args, **options
            )
            if num_rounds > 0 and not result.arrays:
                reason = (
                    f"training gave no model in {count(num_rounds, 'round')}: nothing"
                    " is calibrated"
                )
                log.error("%s", reason)
                return _add_outcome(result, ValueError(reason))
            result.arrays = result.arrays or initial_arrays
            if self._names_model:
                plan = _name_model(plan, protocol.model_digest(result.arrays))
        else:
            kept, arrays = resumed
            if plan.terms.model is None:
                plan = _name_model(plan, kept.terms.model)
            if not self._is_any_plan and plan.digest != kept.digest:
                raise ValueError(
                    f"reports must be the folder of a round with {plan!r}, got one with"
                    f" {kept!r}"
                )
            log.info(
                "a round is resumed with its plan and its model: nothing is trained"
            )
            plan, result = kept, Result(arrays=arrays)
        log.info("[CALIBRATION]")
        try:
            calibration = calibrate(grid, plan, result.arrays or None, **self._options)
            if output is not None:
                write_text(output, calibration.to_json() + "\n", force=True)
                log.info("calibration saved as %s", output)
        except Exception as error:
            log.exception("there is no calibration; the model is in the result")
            return _add_outcome(result, error)
        figures = _read_figures(calibration)
        log.info("\t└──> MetricRecord: %s", figures)
        result.evaluate_metrics_clientapp.setdefault(num_rounds, MetricRecord()).update(
            figures
        )
        return _add_outcome(result, calibration)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Configure a round of training as the other strategy does."""
        return self.strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Aggregate a round of training as the other strategy does."""
        return self.strategy.aggregate_train(server_round, replies)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Configure a round of evaluation as the other strategy does."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Aggregate a round of evaluation as the other strategy does."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """Log the configuration of both."""
        log.info("\t├──> Calibration after the last round: %r", self.plan)
        self.strategy.summary()


def _name_model(plan: Plan, model: str | None) -> Plan:
    return plan.model_copy(
        update={"terms": plan.terms.model_copy(update={"model": model})}
    )


def _add_outcome(result: Result, outcome: Calibration | Exception) -> ConformalResult:
    kept = {each.name: getattr(result, each.name) for each in fields(Result)}
    return ConformalResult(**kept, outcome=outcome)


def _read_figures(calibration: Calibration) -> dict[str, Any]:
    """Return the figures of a calibration for a MetricRecord; lists by group, then
    level, if of several.
    """
    plan = calibration.plan
    parts = (
        [calibration[group] for group in plan.groups]
        if plan.is_grouped
        else [calibration]
    )
    cells = [part[level] for part in parts for level in plan.confidence_levels]
    figures = {
        "conformal-threshold": [float(cell.threshold) for cell in cells],
        "conformal-coverage": [cell.guarantee.mean for cell in cells],
    }
    return {
        **{
            name: each if len(each) > 1 else each[0]
            for name, each in figures.items()
            if None not in each
        },
        "conformal-sites-answered": calibration.n_answers,
        "conformal-sites-missing": calibration.n_missing,
    }
