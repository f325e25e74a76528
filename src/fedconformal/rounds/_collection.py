"""Server side of a round: answers in, a calibration or an assessment out.

Each question is answered once, and only the node registered under a name answers for that site.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from fedconformal import protocol
from fedconformal._text import one_line
from fedconformal.documents import (
    Calibration,
    CalibrationView,
    Check,
    DocumentError,
    Plan,
    Refusal,
    Report,
)
from fedconformal.rounds._folder import Folder
from fedconformal.rounds._packing import Failure, longest_report, unpack_check, unpack_report

if TYPE_CHECKING:
    from fedconformal.monitoring import Assessment

Node = TypeVar("Node", bound=Hashable)
Answer = TypeVar("Answer", Report, Check)


class Answers(ABC, Generic[Node, Answer]):
    """Answers of one round, as they arrive.

    Parameters
    ----------
    nodes : mapping
        The nodes of the round, each with its registered name; an empty one where the engine knows none.
    engine : str
        Name of the engine.
    log : logging.Logger
        The server's log.
    """

    what: str
    """Word for an answer."""

    def __init__(self, nodes: Mapping[Node, str], *, engine: str, log: logging.Logger) -> None:
        self.nodes, self.engine, self._log = nodes, engine, log
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
        assert node is not None
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
            assert node is not None
            meaning = Failure.meaning_of(code, self.engine)
            self._log.warning("%s sent no %s: %s", self.who(node), self.what, meaning)

    def who(self, node: Node) -> str:
        """Return the name of a node in messages.

        Parameters
        ----------
        node : hashable
            A node that was asked.

        Returns
        -------
        str
            Its registered name, else its number.
        """
        return one_line(self.nodes[node] or f"node {node}", 200)

    @abstractmethod
    def _read(self, packed: object) -> Answer:
        """Return the answer in a reply."""

    @abstractmethod
    def _accept(self, node: Node, answer: Answer) -> None:
        """Keep an answer whose sender may answer for its site."""

    @abstractmethod
    def _refuse(self, node: Node | None, refusal: Refusal) -> None:
        """Note the reason why an answer does not count."""

    def _close(self, node: Node | None) -> bool:
        """Close the question to a node, and return whether it was open."""
        if node is None or node not in self._open:
            stray = Refusal(source="unknown node", reason="answers no open question of this round")
            self._refuse(None, stray)
            return False
        del self._open[node]
        return True

    def _check_sender(self, node: Node, answer: Answer) -> None:
        """Refuse an answer for a site other than the one that the node is registered as.

        Where some nodes have registered names, one without could only be posing as one of them.
        """
        registered = self.nodes[node]
        if not registered and any(self.nodes.values()):
            raise DocumentError(
                f"reports as {answer.site!r}, but is not registered under a name as others are"
            )
        if registered not in {"", answer.site}:
            raise DocumentError(f"registered as {registered!r}, but reports as {answer.site!r}")

    def _log_missing(self, timeout: float) -> None:
        for node in self._open:
            self._log.warning("%s did not answer within %g s", self.who(node), timeout)

    def _log_refused(self, refused: Iterable[Refusal]) -> None:
        for refusal in refused:
            self._log.warning("refused: %s: %s", refusal.source, refusal.reason)


class Collection(Answers[Node, Report]):
    """Reports of one round, as they arrive.

    Parameters
    ----------
    plan : Plan
        The plan that is answered.
    nodes : mapping
        The nodes of the round, each with its registered name; an empty one where the engine knows none.
    engine : str
        Name of the engine.
    log : logging.Logger
        The server's log.
    folder : Folder, optional
        Keeps answers as they arrive. Those that it holds already count, and their nodes are not asked again.

    Examples
    --------
    >>> import logging
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 40, "B": 40})
    >>> nodes, log = {1: "node 1", 2: "node 2"}, logging.getLogger("server")
    >>> fc.rounds.Collection(plan, nodes, engine="mail", log=log).plan == plan
    True
    """

    what = "report"

    def __init__(
        self,
        plan: Plan,
        nodes: Mapping[Node, str],
        *,
        engine: str,
        log: logging.Logger,
        folder: Folder | None = None,
    ) -> None:
        super().__init__(nodes, engine=engine, log=log)
        self.plan, self._folder = plan, folder
        self._reports, self._refused = ([], []) if folder is None else folder.read()
        self._before = tuple(self._reports)
        for node in self._answered_before():
            del self._open[node]
        if self._before:
            log.info("reports kept from before: %d; sites to ask: %d", len(self._before), len(self._open))

    def calibrate(self, *, timeout: float, on_refused: Literal["raise", "skip"]) -> Calibration:
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
            The same, byte for byte, as `fedconformal.calibrate` gives for the same reports.
        """
        self._log_missing(timeout)
        try:
            calibration = protocol.calibrate(
                self.plan, self._reports, on_refused=on_refused, unreadable=self._refused
            )
        except protocol.RefusedReportsError:
            if self._folder is not None:
                self._folder.complete()
            raise
        if self._folder is not None:
            self._folder.complete()
        self._log_refused(calibration.refused)
        return calibration

    def _read(self, packed: object) -> Report:
        return unpack_report(packed, longest=longest_report(self.plan))

    def _accept(self, node: Node, answer: Report) -> None:
        if answer in self._before:  # known under another number before, and asked again
            return
        if self._folder is not None:
            self._folder.keep(str(node), self.nodes[node], answer)
        self._reports.append(answer)

    def _refuse(self, node: Node | None, refusal: Refusal) -> None:
        self._refused.append(refusal)
        if self._folder is not None:
            self._folder.keep_refusal(None if node is None else str(node), refusal)

    def _answered_before(self) -> set[Node]:
        """Return the nodes whose answers are in the folder, by number or by a name that only one node has."""
        folder = self._folder
        if folder is None:
            return set()
        if folder.is_complete:
            return set(self.nodes)
        sites, names = {report.site for report in self._before}, Counter(self.nodes.values())
        return {
            node
            for node, name in self.nodes.items()
            if folder.has(str(node), name) or (name in sites and names[name] == 1)
        }


class CheckCollection(Answers[Node, Check]):
    """Checks of one calibration, as they arrive.

    Parameters
    ----------
    calibration : Calibration or CalibrationView
        The calibration that sites check; of one with groups, one group: ``calibration["child"]``.
    nodes, engine, log : mapping, str and logging.Logger
        As for `Collection`.

    Examples
    --------
    >>> import logging
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": range(40), "B": range(60)})
    >>> log = logging.getLogger("server")
    >>> checks = fc.rounds.CheckCollection(calibration, {1: "A"}, engine="a test", log=log)
    >>> checks.calibration == calibration
    True
    """

    what = "check"

    def __init__(
        self,
        calibration: Calibration | CalibrationView,
        nodes: Mapping[Node, str],
        *,
        engine: str,
        log: logging.Logger,
    ) -> None:
        super().__init__(nodes, engine=engine, log=log)
        self.calibration = calibration
        self._checks: dict[str, list[Check]] = defaultdict(list)
        self._refused: list[Refusal] = []

    def assess(self, *, timeout: float) -> Assessment:
        """Assess the coverage at each site; checks that do not fit, or contradict each other, are left out.

        Parameters
        ----------
        timeout : float
            Seconds that were waited, for the log.

        Returns
        -------
        Assessment
            Result of `fedconformal.monitoring.assess` for the checks that count.

        Raises
        ------
        ValueError
            If none counts.
        """
        from fedconformal import monitoring

        counting = []
        for site, checks in sorted(self._checks.items()):
            if all(check == checks[0] for check in checks):
                counting.append(checks[0])
            else:
                reason = f"{len(checks)} different checks from this site: none of them counts"
                self._refuse(None, Refusal(source=site, reason=reason))
        self._log_missing(timeout)
        self._log_refused(self._refused)
        if not counting:
            raise ValueError("0 sites sent a check that counts: the log says why")
        return monitoring.assess(self.calibration, counting)

    def _read(self, packed: object) -> Check:
        from fedconformal import monitoring

        check = unpack_check(packed)
        monitoring.assess(self.calibration, [check])  # refuses what does not fit
        return check

    def _accept(self, node: Node, answer: Check) -> None:
        self._checks[answer.site].append(answer)

    def _refuse(self, node: Node | None, refusal: Refusal) -> None:
        self._refused.append(refusal)
