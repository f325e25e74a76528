"""Server side of a round: answers in, a calibration or an assessment out.

Each question is answered once, and only the node registered under a name answers for
that site.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeGuard, TypeVar

from fedconformal import protocol
from fedconformal._text import count, one_line, quoted
from fedconformal._util import choice, integer
from fedconformal.documents import (
    Calibration,
    CalibrationView,
    Check,
    DocumentError,
    Plan,
    Refusal,
    Report,
    SigningKey,
    is_signed_by,
    period_text,
    read_period,
)
from fedconformal.rounds import _site
from fedconformal.rounds._folder import Folder, Node

if TYPE_CHECKING:
    from fedconformal.monitoring import Assessment


_MOST_LINES, _MOST_NAMES = 10, 5  # in the log, about one matter
_SECONDS_BETWEEN = 10.0  # two lines on the progress of a round


def check_options(
    timeout: float, *, wait: float = 0.0, on_refused: str = "skip"
) -> None:
    """Refuse options of a round before anybody is asked: there is always a finite
    timeout.
    """
    for name, seconds, least in (("timeout", timeout, 1e-3), ("wait", wait, 0.0)):
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not (is_number and least <= seconds < math.inf):
            raise ValueError(
                f"{name} must be a finite number of seconds >= {least:g}, got"
                f" {seconds!r}"
            )
    choice("on_refused", on_refused, ("raise", "skip"))


def check_present(
    plan: Plan,
    nodes: Mapping[Any, str],
    *,
    answered: Iterable[str] = (),
    minimum: int | None = None,
    log: logging.Logger,
) -> None:
    """Log which sites are expected, there and missing, and refuse a round with too few.

    Parameters
    ----------
    plan : Plan
        The plan that is to be answered.
    nodes : mapping
        The nodes that are there and, unless they have names, have not answered; each
        with its registered name, an empty one where the engine knows none.
    answered : iterable of str
        Sites that have answered already, and need not be there.
    minimum : int, optional
        Smallest number of sites; by default as many as the plan needs for a finite
        threshold at every level, or those that an open plan expects.
    log : logging.Logger
        The server's log.

    Raises
    ------
    ValueError
        If there are fewer.

    Examples
    --------
    >>> import logging
    >>> import fedconformal as fc
    >>> plan, log = fc.plan(n_sites=["A", "B", "C"]), logging.getLogger("server")
    >>> fc.rounds.check_present(plan, {1: "A", 2: "B"}, log=log)
    Traceback (most recent call last):
    ...
    ValueError: at least 3 sites must be there, got 2 of 3 (missing: 'C'); min_sites=2
    starts with these
    """
    if minimum is not None:
        integer("min_sites", minimum, low=1)
    done, names = set(answered), {name for name in nodes.values() if name}
    expected = sorted(
        {name for design in plan.designs for name in design.asked_names or ()}
    )
    present: Collection[str] | int = len(nodes) + len(done - names)
    if expected and len(names) == len(
        nodes
    ):  # else it shows who they are when they answer
        present = (names | done).intersection(expected)
    number = present if isinstance(present, int) else len(present)
    wanted = len(expected) or max(design.n_asked or 0 for design in plan.designs)
    shown = f"{number:,} of {wanted:,}" if wanted else f"{number:,}"
    if not isinstance(present, int) and number < wanted:
        shown += (
            f" (missing: {quoted([name for name in expected if name not in present])})"
        )
    log.log(
        logging.WARNING if number < wanted else logging.INFO,
        "sites that are there: %s",
        shown,
    )
    if protocol.suffices(plan, present) if minimum is None else number >= minimum:
        return
    needed = protocol.sites_needed(plan) if minimum is None else minimum
    fewer = f"; min_sites={number} starts with these" if number else ""
    raise ValueError(
        f"at least {count(needed, 'site')} must be there, got {shown}{fewer}"
    )


Answer = TypeVar("Answer", Report, Check)


class Answers(Generic[Node, Answer]):
    """Answers of one round, as they arrive.

    Parameters
    ----------
    nodes : mapping
        The nodes of the round, each with its registered name; an empty one where the
        engine knows none.
    engine : str
        Name of the engine.
    log : logging.Logger
        The server's log.
    codes : mapping, optional
        Sentences for the engine's own error codes, for the log.
    """

    question: _site.Question
    """Kind of question that is asked."""
    packed: bytes
    """The question itself, for the wire."""

    def __init__(
        self,
        nodes: Mapping[Node, str],
        *,
        engine: str,
        log: logging.Logger,
        codes: Mapping[Any, str] | None = None,
    ) -> None:
        self.nodes, self.engine, self._log, self._codes = (
            nodes,
            engine,
            log,
            codes or {},
        )
        self._start = self._told = time.monotonic()
        self._n_failed = 0
        self._has_names = any(nodes.values())
        self.answers: list[Answer] = []
        self.refused: list[Refusal] = []
        self._open = dict.fromkeys(nodes)

    @property
    def to_ask(self) -> tuple[Node, ...]:
        """Nodes that have not answered yet."""
        return tuple(self._open)

    def receive(self, node: Node | None, packed: object) -> None:
        """Accept or refuse a reply; only the first of each node is read.

        Parameters
        ----------
        node : hashable or None
            The node that was asked; None if the reply answers no known question.
        packed : object
            Content of the reply.
        """
        if not self._close(node):
            return
        try:
            answer = self._read(packed)
            self._check_sender(node, answer)
        except ValueError as error:
            self._refuse(node, Refusal(source=self.who(node), reason=str(error)))
        else:
            self._accept(node, answer)

    def fail(self, node: Node | None, code: int | str) -> None:
        """Note that a node sent a code instead of an answer.

        Parameters
        ----------
        node : hashable or None
            As for ``receive``.
        code : int or str
            A `Failure`, or a code of the engine's own.
        """
        if self._close(node):
            own = (failure.meaning for failure in _site.Failure if failure == code)
            meaning = next(
                own, self._codes.get(code, f"{self.engine}'s error code {code}")
            )
            self._n_failed += 1
            if self._n_failed <= _MOST_LINES:
                self._log.warning(
                    "%s sent no %s: %s", self.who(node), self.question.answered, meaning
                )

    def who(self, node: Node) -> str:
        """Return the name of a node in messages: its registered name, else its
        number.
        """
        return one_line(self.nodes[node] or f"node {node}", 200)

    def _read(self, packed: object) -> Answer:
        """Return the answer in a reply."""
        raise NotImplementedError

    def _accept(self, node: Node, answer: Answer) -> None:
        """Keep an answer whose sender may answer for its site."""
        self.answers.append(answer)

    def _refuse(self, node: Node | None, refusal: Refusal) -> None:
        """Note the reason why an answer does not count."""
        self.refused.append(refusal)

    def _close(self, node: Node | None) -> TypeGuard[Node]:
        """Close the question to a node, and return whether it was open."""
        if node is None or node not in self._open:
            stray = Refusal(
                source="unknown node", reason="answers no open question of this round"
            )
            self._refuse(None, stray)
            return False
        del self._open[node]
        now = time.monotonic()
        if now - self._told >= _SECONDS_BETWEEN and self._open:
            self._told, n_nodes, took = now, len(self.nodes), now - self._start
            self._log.info(
                "%d of %d sites replied within %.0f s",
                n_nodes - len(self._open),
                n_nodes,
                took,
            )
        return True

    def _check_sender(self, node: Node, answer: Answer) -> None:
        """Refuse an answer for a site other than the one that the node is registered
        as.

        Where some nodes have registered names, one without could only be posing as one
        of them.
        """
        registered = self.nodes[node]
        if not registered and self._has_names:
            raise DocumentError(
                f"reports as {answer.site!r}, but is not registered under a name as"
                " others are"
            )
        if registered not in {"", answer.site}:
            raise DocumentError(
                f"registered as {registered!r}, but reports as {answer.site!r}"
            )

    def _log_asked(self) -> None:
        """Log who is asked, a few of them by name."""
        if self._open:
            names = ", ".join(
                self.who(node) for node in islice(self._open, _MOST_NAMES)
            )
            more = ", ..." if len(self._open) > _MOST_NAMES else ""
            asked = count(len(self._open), "site")
            self._log.info(
                "asking %s for a %s: %s%s", asked, self.question.answered, names, more
            )

    def _log_missing(self, timeout: float) -> None:
        if self._n_failed > _MOST_LINES:
            self._log.warning(
                "%d more sent no %s",
                self._n_failed - _MOST_LINES,
                self.question.answered,
            )
        for node in islice(self._open, _MOST_LINES):
            self._log.warning("%s did not answer within %g s", self.who(node), timeout)
        if len(self._open) > _MOST_LINES:
            self._log.warning("%d more did not answer", len(self._open) - _MOST_LINES)

    def _log_refused(self, refused: Sequence[Refusal]) -> None:
        for refusal in refused[:_MOST_LINES]:
            self._log.warning("refused: %s: %s", refusal.source, refusal.reason)
        if len(refused) > _MOST_LINES:
            self._log.warning("%d more refused", len(refused) - _MOST_LINES)


class ReportCollection(Answers[Node, Report]):
    """Reports of one round, as they arrive.

    Parameters
    ----------
    plan : Plan
        The plan that is answered.
    nodes : mapping
        The nodes of the round, each with its registered name; an empty one where the
        engine knows none.
    folder : Folder, optional
        Keeps answers as they arrive. Those that it holds already count, and their nodes
        are not asked again; a node without a name that has got another number is, and
        its new answer is refused.
    **options : engine, log, codes
        Name of the engine, the server's log, and sentences for the engine's error
        codes.

    Examples
    --------
    >>> import logging
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 40, "B": 40})
    >>> nodes, log = {1: "node 1", 2: "node 2"}, logging.getLogger("server")
    >>> fc.rounds.ReportCollection(plan, nodes, engine="mail", log=log).plan == plan
    True
    """

    question = _site.CALIBRATE

    def __init__(
        self,
        plan: Plan,
        nodes: Mapping[Node, str],
        *,
        folder: Folder | None = None,
        **options: Any,
    ) -> None:
        super().__init__(nodes, **options)
        self.plan, self.packed, self._folder = plan, _site.pack_plan(plan), folder
        self._longest = _site.longest_report(plan)
        if folder is not None:
            self.answers, self.refused = folder.read()
        before, self._before = (
            tuple(self.answers),
            {report.digest for report in self.answers},
        )
        self._sites_before = {
            report.site for report in before if report.plan == plan.digest
        }
        # Answers in the folder are known by the number of a node, or by a name that
        # only one node has.
        sites, names = {report.site for report in before}, Counter(nodes.values())
        answered = set() if folder is None else folder.answered(nodes)
        is_complete = folder is not None and folder.is_complete
        for node, name in nodes.items():
            known = name in sites and names[name] == 1
            if folder is not None and (known or is_complete or node in answered):
                del self._open[node]
        if before:
            self._log.info(
                "reports kept from before: %d; sites to ask: %d",
                len(before),
                len(self._open),
            )
        self._log_asked()

    def calibrate(
        self, *, timeout: float, on_refused: Literal["raise", "skip"]
    ) -> Calibration:
        """Calibrate on the reports that arrived; the other sites are missing.

        Parameters
        ----------
        timeout : float
            Seconds that were waited, for the log.
        on_refused : {"raise", "skip"}
            As for `fedconformal.calibrate`.

        Returns
        -------
        Calibration
            The same, byte for byte, as `fedconformal.calibrate` gives for the same
            reports.
        """
        self._log_missing(timeout)
        try:
            calibration = protocol.calibrate(
                self.plan, self.answers, on_refused=on_refused, unreadable=self.refused
            )
        except protocol.RefusedReportsError:
            if self._folder is not None:
                self._folder.complete()
            raise
        if self._folder is not None:
            self._folder.complete()
        self._log_refused(calibration.refused)
        self._log_result(calibration)
        return calibration

    def _log_result(self, calibration: Calibration) -> None:
        """Log who answered, and threshold and coverage of each level, a few lines of
        them.
        """
        answered, expected = f"{calibration.n_answers:,}", calibration.plan.n_sites
        of_all = answered if expected is None else f"{answered} of {expected:,}"
        took = time.monotonic() - self._start
        self._log.info("calibrated on the reports of %s sites in %.1f s", of_all, took)
        designs = [part.design for part in calibration.parts[:_MOST_LINES]]
        chosen = [
            (design.group, level.confidence_level)
            for design in designs
            for level in design.levels
        ]
        for group, level in chosen[:_MOST_LINES]:
            view = calibration[level] if group is None else calibration[group, level]
            self._log.info("%s", protocol.describe_coverage(view))
        if (
            len(calibration.parts) * len(calibration.plan.confidence_levels)
            > _MOST_LINES
        ):
            self._log.info("... the others are in the calibration")

    def _read(self, packed: object) -> Report:
        return _site.unpack_report(packed, longest=self._longest)

    def _accept(self, node: Node, answer: Report) -> None:
        if (
            answer.digest in self._before
        ):  # known under another number before, and asked again
            return
        if not self.nodes[node] and answer.site in self._sites_before:
            reason = (
                f"{answer.site!r} has answered before: its report in the folder counts"
            )
            self._refuse(node, Refusal(source=self.who(node), reason=reason))
            return
        if self._folder is not None:
            self._folder.keep(str(node), self.nodes[node], answer)
        super()._accept(node, answer)

    def _refuse(self, node: Node | None, refusal: Refusal) -> None:
        super()._refuse(node, refusal)
        if self._folder is not None:
            self._folder.keep_refusal(None if node is None else str(node), refusal)


class CheckCollection(Answers[Node, Check]):
    """Checks of one calibration, as they arrive.

    Parameters
    ----------
    calibration : Calibration or CalibrationView
        The calibration that sites check; of one with groups, one group:
        ``calibration["child"]``.
    nodes : mapping
        As for `ReportCollection`.
    key : SigningKey, optional
        The coordinator's, for sites whose policy wants its signature. Without it a
        signed calibration is sent as a whole, and of others the thresholds.
    period : str, optional
        When the cases arose that sites check, for `watch`.
    masked : bool
        Ask for masked counts, of which nothing but the sum over all sites can be read.
    **options : engine, log, codes
        As for `ReportCollection`.

    Examples
    --------
    >>> import logging
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": range(40), "B": range(60)})
    >>> log = logging.getLogger("server")
    >>> checks = fc.rounds.CheckCollection(
    ...     calibration, {1: "A"}, engine="a test", log=log
    ... )
    >>> checks.calibration == calibration
    True
    """

    question = _site.CHECK

    def __init__(
        self,
        calibration: Calibration | CalibrationView,
        nodes: Mapping[Node, str],
        *,
        key: SigningKey | None = None,
        period: str | None = None,
        masked: bool = False,
        **options: Any,
    ) -> None:
        from fedconformal import monitoring

        super().__init__(nodes, **options)
        self.calibration, self.period = (
            calibration,
            period and period_text(*read_period(period)),
        )
        self.masked, self.keys = (
            masked,
            monitoring.check_keys(calibration) if masked else (),
        )
        keys = self.keys or None
        self.packed = _site.pack_calibration(
            calibration, key=key, period=self.period, keys=keys
        )
        monitoring.refuse_unverified(
            calibration.whole
        )  # as sites cannot: they get the thresholds alone
        self._log_asked()

    def assess(self, *, timeout: float) -> Assessment:
        """Assess the coverage at each site; checks that do not fit, or contradict each
        other, are left out.

        Parameters
        ----------
        timeout : float
            Seconds that were waited, for the log.

        Returns
        -------
        Assessment
            Result of `fedconformal.monitoring.compare` for the checks that count.

        Raises
        ------
        ValueError
            If none counts.
        """
        from fedconformal import monitoring

        counting, by_site = [], defaultdict(list)
        for check in self.answers:
            by_site[check.site].append(check)
        for site, checks in sorted(by_site.items()):
            if all(check == checks[0] for check in checks):
                counting.append(checks[0])
            else:
                reason = (
                    f"{len(checks)} different checks from this site: none of them"
                    " counts"
                )
                self._refuse(None, Refusal(source=site, reason=reason))
        self._log_missing(timeout)
        self._log_refused(self.refused)
        took = time.monotonic() - self._start
        self._log.info(
            "checks of %d of %d sites in %.1f s", len(counting), len(self.nodes), took
        )
        if not counting:
            raise ValueError("0 sites sent a check that counts: the log says why")
        return monitoring.assess(self.calibration, counting)

    def _read(self, packed: object) -> Check:
        from fedconformal import monitoring

        check = _site.unpack_check(packed)
        if check.period != self.period:
            raise ValueError(
                f"checks the period {check.period}, and was asked for {self.period}"
            )
        if (check.masked is not None) != self.masked:
            raise ValueError(f"counts that are {'not ' if self.masked else ''}masked")
        if not self.masked:
            monitoring.assess(self.calibration, [check])  # refuses what does not fit
        elif not any(
            key.site == check.site and is_signed_by(check, key.public_key)
            for key in self.keys
        ):
            raise ValueError(
                f"{check.site!r} is not signed with the key that the plan lists"
            )
        return check
