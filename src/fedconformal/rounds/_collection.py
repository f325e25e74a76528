"""The server's side of a round: answers in, who is missing, a calibration or an assessment out.

A question is answered once, and a name by the node that bears it.
"""

import logging
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, Literal, TypeVar

from fedconformal import heterogeneity, protocol
from fedconformal._text import one_line
from fedconformal.documents import Calibration, Check, DocumentError, Plan, Refusal, Report
from fedconformal.heterogeneity import Assessment
from fedconformal.rounds._folder import Folder
from fedconformal.rounds._packing import Failure, longest_report, unpack_check, unpack_report

Node = TypeVar("Node", bound=Hashable)
Answer = TypeVar("Answer", Report, Check)


class Answers(ABC, Generic[Node, Answer]):
    """The answers of one round, as they come in.

    Parameters
    ----------
    nodes : mapping
        The nodes of the round, each with the name that the engine knows it by; empty where it knows none.
    engine : str
        What the engine is called.
    log : logging.Logger
        The server's log.
    """

    what: str
    """What an answer is called."""

    def __init__(self, nodes: Mapping[Node, str], *, engine: str, log: logging.Logger) -> None:
        self.nodes, self.engine, self._log = nodes, engine, log
        self._open = dict.fromkeys(nodes)

    @property
    def to_ask(self) -> tuple[Node, ...]:
        """The nodes that have not answered yet."""
        return tuple(self._open)

    def receive(self, node: Node | None, packed: object) -> None:
        """Take in what a node sent, once.

        Parameters
        ----------
        node : hashable or None
            The node that was asked; None, or one that has answered, if nobody knows which question this
            answers.
        packed : object
            What came over the wire.
        """
        if not self._close(node):
            return
        assert node is not None
        try:
            answer = self._attributed(node, self._read(packed))
        except ValueError as error:
            self._refuse(node, Refusal(source=self.who(node), reason=str(error)))
        else:
            self._accept(node, answer)

    def fail(self, node: Node | None, code: int | str) -> None:
        """Take in that a node sent a code instead of an answer.

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
        """What a node is called in messages.

        Parameters
        ----------
        node : hashable
            A node that was asked.

        Returns
        -------
        str
            The name that the engine knows it by, else its number.
        """
        return one_line(self.nodes[node] or f"node {node}", 200)

    @abstractmethod
    def _read(self, packed: object) -> Answer:
        """The answer in what came over the wire."""

    @abstractmethod
    def _accept(self, node: Node, answer: Answer) -> None:
        """Take an answer whose sender may speak for its site."""

    @abstractmethod
    def _refuse(self, node: Node | None, refusal: Refusal) -> None:
        """Note why an answer is not looked at."""

    def _close(self, node: Node | None) -> bool:
        """Whether the question to a node was open; it is not any more."""
        if node is None or node not in self._open:
            stray = Refusal(source="unknown node", reason="answers no open question of this round")
            self._refuse(None, stray)
            return False
        del self._open[node]
        return True

    def _attributed(self, node: Node, answer: Answer) -> Answer:
        """The answer of a node. One that is registered under a name speaks for this site alone.

        Where some nodes have registered names, one without could only be posing as one of them.
        """
        registered = self.nodes[node]
        if not registered and any(self.nodes.values()):
            raise DocumentError(
                f"reports as {answer.site!r}, but is not registered under a name as others are"
            )
        if registered not in {"", answer.site}:
            raise DocumentError(f"registered as {registered!r}, but reports as {answer.site!r}")
        return answer

    def _tell(self, timeout: float, refused: Iterable[Refusal]) -> None:
        """Write to the log who did not answer, and what was refused."""
        for node in self._open:
            self._log.warning("%s did not answer within %g s", self.who(node), timeout)
        for refusal in refused:
            self._log.warning("refused: %s: %s", refusal.source, refusal.reason)


class Collection(Answers[Node, Report]):
    """The reports of one round, as they come in.

    Parameters
    ----------
    plan : Plan
        The plan that is answered.
    nodes : mapping
        The nodes of the round, each with the name that the engine knows it by; empty where it knows none.
    engine : str
        What the engine is called.
    log : logging.Logger
        The server's log.
    folder : Folder, optional
        Where answers are kept as they arrive. Those that are there already count, and whose answer is there
        is not asked again.

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
        if plan.privacy is not None and plan.privacy.one_hot:
            raise ValueError(
                f"this plan asks for secure aggregation, which is not offered over {engine}: a site could "
                "not tell whether its vector is added to others' or read alone; with a sum that the sites "
                "trust, report --one-hot and calibrate --histogram do it"
            )
        self.plan, self._folder = plan, folder
        self._reports, self._refused = ([], []) if folder is None else folder.read()
        self._before = tuple(self._reports)
        for node in self._answered_before():
            del self._open[node]
        if self._before:
            log.info("reports kept from before: %d; sites to ask: %d", len(self._before), len(self._open))

    def calibrate(self, *, timeout: float, on_refused: Literal["raise", "skip"]) -> Calibration:
        """The calibration from what came in; who has not answered is missing.

        Parameters
        ----------
        timeout : float
            How many seconds were waited, for the log.
        on_refused : {"raise", "skip"}
            As for `fedconformal.calibrate`.

        Returns
        -------
        Calibration
            The same, byte for byte, as `fedconformal.calibrate` gives for the same reports.
        """
        self._tell(timeout, ())
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
        for refusal in calibration.refused:
            self._log.warning("refused: %s: %s", refusal.source, refusal.reason)
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
        """The nodes whose answers were kept before; under another number, by a name that one node has."""
        folder = self._folder
        if folder is None:
            return set()
        if folder.is_complete:
            return set(self.nodes)
        sites, bearers = {report.site for report in self._before}, Counter(self.nodes.values())
        return {
            node
            for node, name in self.nodes.items()
            if folder.has(str(node), name) or (name in sites and bearers[name] == 1)
        }


class CheckCollection(Answers[Node, Check]):
    """The checks of one calibration, as they come in.

    Parameters
    ----------
    calibration : Calibration
        What sites check; of one with groups, one group: ``calibration["child"]``.
    nodes : mapping
        As for `Collection`.
    engine : str
        What the engine is called.
    log : logging.Logger
        The server's log.

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
        self, calibration: Calibration, nodes: Mapping[Node, str], *, engine: str, log: logging.Logger
    ) -> None:
        super().__init__(nodes, engine=engine, log=log)
        self.calibration = calibration
        self._checks: dict[str, list[Check]] = defaultdict(list)
        self._refused: list[Refusal] = []

    def assess(self, *, timeout: float) -> Assessment:
        """Coverage site by site; what does not fit, or contradicts itself, is left out.

        Parameters
        ----------
        timeout : float
            How many seconds were waited, for the log.

        Returns
        -------
        Assessment
            What `fedconformal.heterogeneity.assess` makes of the checks that count.

        Raises
        ------
        ValueError
            If none counts.
        """
        counting = []
        for site, checks in sorted(self._checks.items()):
            if all(check == checks[0] for check in checks):
                counting.append(checks[0])
            else:
                reason = f"{len(checks)} different checks from this site: none of them counts"
                self._refuse(None, Refusal(source=site, reason=reason))
        self._tell(timeout, self._refused)
        if not counting:
            raise ValueError("0 sites sent a check that counts: the log says why")
        return heterogeneity.assess(self.calibration, counting)

    def _read(self, packed: object) -> Check:
        check = unpack_check(packed)
        heterogeneity.assess(self.calibration, [check])  # refuses what does not fit
        return check

    def _accept(self, node: Node, answer: Check) -> None:
        self._checks[answer.site].append(answer)

    def _refuse(self, node: Node | None, refusal: Refusal) -> None:
        self._refused.append(refusal)
