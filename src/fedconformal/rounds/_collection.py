"""Server side of a round: answers in, a calibration or an assessment out.

Each question is answered once, and only the node registered under a name answers for that site.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeGuard, TypeVar

from fedconformal import protocol
from fedconformal._files import write_text
from fedconformal._text import count, one_line, quoted
from fedconformal._util import choice, integer, read_regular
from fedconformal.documents import (
    Calibration,
    CalibrationView,
    Check,
    DocumentError,
    Plan,
    Refusal,
    Report,
    SigningKey,
)
from fedconformal.documents._base import paused_collector
from fedconformal.rounds import _site

if TYPE_CHECKING:
    from fedconformal.monitoring import Assessment


def check_options(timeout: float, *, wait: float = 0.0, on_refused: str = "skip") -> None:
    """Refuse options of a round before anybody is asked: there is always a finite timeout."""
    for name, seconds, least in (("timeout", timeout, 1e-3), ("wait", wait, 0.0)):
        if not (isinstance(seconds, int | float) and least <= seconds < math.inf):
            raise ValueError(f"{name} must be a finite number of seconds >= {least:g}, got {seconds!r}")
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
        The nodes that are there, each with its registered name; an empty one where the engine knows none.
    answered : iterable of str
        Sites that have answered already, and need not be there.
    minimum : int, optional
        Smallest number of sites; by default as many as the plan needs for a finite threshold at every level,
        or those that an open plan expects.
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
    ValueError: at least 3 sites must be there, got 2 of 3 (missing: 'C'); min_sites=2 starts with these
    """
    if minimum is not None:
        integer("min_sites", minimum, low=1)
    done, names = set(answered), {name for name in nodes.values() if name}
    expected = sorted({name for design in plan.designs for name in design.asked_names or ()})
    present: Collection[str] | int = len(nodes) + len(done - names)
    if expected and len(names) == len(nodes):  # else it shows who they are when they answer
        present = (names | done).intersection(expected)
    number = present if isinstance(present, int) else len(present)
    wanted = len(expected) or max(design.n_asked or 0 for design in plan.designs)
    shown = f"{number:,} of {wanted:,}" if wanted else f"{number:,}"
    if not isinstance(present, int) and number < wanted:
        shown += f" (missing: {quoted([name for name in expected if name not in present])})"
    log.info("sites that are there: %s", shown)
    if protocol.suffices(plan, present) if minimum is None else number >= minimum:
        return
    needed = protocol.sites_needed(plan) if minimum is None else minimum
    fewer = f"; min_sites={number} starts with these" if number else ""
    raise ValueError(f"at least {count(needed, 'site')} must be there, got {shown}{fewer}")


# -- answers kept as they arrive, so that a coordinator that dies loses nothing ----------------------------


PLAN_FILE = "plan.json"
"""Name of the plan's file in a folder of kept reports."""
_MODEL, _REFUSED, _COMPLETE = "model.txt", "refused.jsonl", "complete"
_MOST_NOTED = 2**27  # bytes of the list of refusals: a line for each node at the most


class Folder:
    """Folder of one round: the plan, and a report from each node that sent one.

    ``fedconformal calibrate`` takes ``plan.json`` and the other ``.json`` files; a report that came another
    way may be put there too. ``refused.jsonl`` lists replies that were refused on arrival. Once there is a
    file ``complete``, nobody is asked any more; without it, sites that have not answered are asked again.

    Parameters
    ----------
    path : str or Path
        The folder; it is made if it does not exist.
    plan : Plan
        The plan that is answered. A folder holds the answers to one plan.
    model : str, optional
        Digest of the model that goes with the plan, whether or not the plan names it: answers under one model
        do not count under another.

    Raises
    ------
    ValueError
        If the folder holds the answers to another plan or under another model, or other files.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=3, n_points=40)
    >>> with TemporaryDirectory() as folder:
    ...     print(fc.rounds.Folder(folder, plan).is_complete)
    False
    """

    def __init__(self, path: str | Path, plan: Plan, *, model: str | None = None) -> None:
        self.path = Path(path)
        kept, model_file, model = self.path / PLAN_FILE, self.path / _MODEL, model or "none"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not kept.exists() and any(self.path.iterdir()):
                raise ValueError(f"reports must be a new folder, or one with a {PLAN_FILE}, got {path}")
        except OSError as error:
            raise ValueError(f"reports must be a folder, got {path}: {error.strerror or error}") from None
        if not kept.exists():
            write_text(kept, plan.to_json() + "\n", force=False)
        elif Plan.read(kept).digest != plan.digest:
            raise ValueError(f"reports must be of this plan, but {path} answers another one, {kept}")
        if not model_file.exists():
            write_text(model_file, f"{model}\n", force=False)
        elif (before := one_line(read_regular(model_file, 200).decode(errors="replace"), 200)) != model:
            raise ValueError(
                f"reports must be the folder of this model: {path} holds answers under another one "
                f"({before}, not {model})"
            )

    @property
    def is_complete(self) -> bool:
        """True if the round is over."""
        return (self.path / _COMPLETE).exists()

    def complete(self) -> None:
        """Note that the round is over: nobody is asked any more."""
        (self.path / _COMPLETE).touch()

    def keep(self, node: str, name: str, report: Report) -> None:
        """Write the report of a node, by its number and registered name, before anything is done with it."""
        write_text(self.path / self._file(node, name), report.to_json(indent=None) + "\n", force=True)

    def keep_refusal(self, node: str | None, refusal: Refusal) -> None:
        """Write a refusal on arrival; the node is None if the sender is unknown."""
        line = {"node": node, "source": refusal.source, "reason": refusal.reason}
        with (self.path / _REFUSED).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def answered(self, nodes: Mapping[Node, str]) -> set[Node]:
        """Return the nodes, given with their names, whose report is here, or was refused."""
        refused, files = {line["node"] for line in self._refusals()}, set(os.listdir(self.path))
        return {
            node
            for node, name in nodes.items()
            if str(node) in refused or self._file(str(node), name) in files
        }

    def read(self) -> tuple[list[Report], list[Refusal]]:
        """Read the answers that have arrived so far, for `fedconformal.calibrate`."""
        reports, unreadable = read_reports(path for path in list_json(self.path) if path.name != PLAN_FILE)
        refused = [Refusal(source=line["source"], reason=line["reason"]) for line in self._refusals()]
        return reports, refused + unreadable

    def _refusals(self) -> list[dict[str, str]]:
        """Return the refusals whose lines are complete."""
        file = self.path / _REFUSED
        text = read_regular(file, _MOST_NOTED).decode() if file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    @staticmethod
    def _file(node: str, name: str) -> str:
        """Return the name of a node's file: recognisable and unique for any name."""
        digest = hashlib.sha256(f"{node}\n{name}".encode()).hexdigest()
        shown = re.sub(r"[^A-Za-z0-9_-]+", "_", name or node)
        return f"report-{shown[:60]}-{digest[:12]}.json"


def list_json(folder: Path) -> Iterator[Path]:
    """Yield the .json files of a folder in the order of their names, without a path for each at once."""
    return (folder / name for name in sorted(os.listdir(folder)) if name.endswith(".json"))


def read_reports(paths: Iterable[Path]) -> tuple[list[Report], list[Refusal]]:
    """Read reports from files, with a refusal for every other file.

    Parameters
    ----------
    paths : iterable of Path
        The files.

    Returns
    -------
    reports, refused : list of Report and list of Refusal
        For `fedconformal.calibrate`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import fedconformal as fc
    >>> report = fc.report(fc.plan(n_sites=3, n_points=40), range(40), site="A")
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "A.json"
    ...     _ = path.write_text(report.to_json())
    ...     print(fc.rounds.read_reports([path]))
    ([<Report: 1 number for 40 scores, site 'A'>], [])
    """
    reports, unreadable = [], []
    with paused_collector():
        for path in paths:
            try:
                reports.append(Report.read(path))
            except DocumentError as error:
                reason = str(error).removeprefix(f"{path}: ")
                unreadable.append(Refusal(source=str(path), reason=reason))
    return reports, unreadable


Node = TypeVar("Node", bound=Hashable)
Answer = TypeVar("Answer", Report, Check)


class Answers(Generic[Node, Answer]):
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

    question: _site.Question
    """Kind of question that is asked."""
    packed: bytes
    """The question itself, for the wire."""

    def __init__(self, nodes: Mapping[Node, str], *, engine: str, log: logging.Logger) -> None:
        self.nodes, self.engine, self._log = nodes, engine, log
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
            meaning = next(own, f"{self.engine}'s error code {code}")
            self._log.warning("%s sent no %s: %s", self.who(node), self.question.answered, meaning)

    def who(self, node: Node) -> str:
        """Return the name of a node in messages: its registered name, else its number."""
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
        if not registered and self._has_names:
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


class ReportCollection(Answers[Node, Report]):
    """Reports of one round, as they arrive.

    Parameters
    ----------
    plan : Plan
        The plan that is answered.
    nodes : mapping
        The nodes of the round, each with its registered name; an empty one where the engine knows none.
    folder : Folder, optional
        Keeps answers as they arrive. Those that it holds already count, and their nodes are not asked again.
    **options : engine, log
        Name of the engine, and the server's log.

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
        self, plan: Plan, nodes: Mapping[Node, str], *, folder: Folder | None = None, **options: Any
    ) -> None:
        super().__init__(nodes, **options)
        self.plan, self.packed, self._folder = plan, _site.pack_plan(plan), folder
        self._longest = _site.longest_report(plan)
        if folder is not None:
            self.answers, self.refused = folder.read()
        before, self._before = tuple(self.answers), {report.digest for report in self.answers}
        # Answers in the folder are known by the number of a node, or by a name that only one node has.
        sites, names = {report.site for report in before}, Counter(nodes.values())
        answered = set() if folder is None else folder.answered(nodes)
        is_complete = folder is not None and folder.is_complete
        for node, name in nodes.items():
            known = name in sites and names[name] == 1
            if folder is not None and (known or is_complete or node in answered):
                del self._open[node]
        if before:
            self._log.info("reports kept from before: %d; sites to ask: %d", len(before), len(self._open))

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
                self.plan, self.answers, on_refused=on_refused, unreadable=self.refused
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
        return _site.unpack_report(packed, longest=self._longest)

    def _accept(self, node: Node, answer: Report) -> None:
        if answer.digest in self._before:  # known under another number before, and asked again
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
        The calibration that sites check; of one with groups, one group: ``calibration["child"]``.
    nodes : mapping
        As for `ReportCollection`.
    key : SigningKey, optional
        The coordinator's, for sites whose policy wants its signature. Without it a signed calibration is sent
        as a whole, and of others the thresholds.
    **options : engine, log
        As for `ReportCollection`.

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

    question = _site.CHECK

    def __init__(
        self,
        calibration: Calibration | CalibrationView,
        nodes: Mapping[Node, str],
        *,
        key: SigningKey | None = None,
        **options: Any,
    ) -> None:
        from fedconformal import monitoring

        super().__init__(nodes, **options)
        self.calibration, self.packed = calibration, _site.pack_calibration(calibration, key=key)
        monitoring.refuse_unverified(calibration.whole)  # as sites cannot: they get the thresholds alone

    def assess(self, *, timeout: float) -> Assessment:
        """Assess the coverage at each site; checks that do not fit, or contradict each other, are left out.

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
                reason = f"{len(checks)} different checks from this site: none of them counts"
                self._refuse(None, Refusal(source=site, reason=reason))
        self._log_missing(timeout)
        self._log_refused(self.refused)
        if not counting:
            raise ValueError("0 sites sent a check that counts: the log says why")
        return monitoring.assess(self.calibration, counting)

    def _read(self, packed: object) -> Check:
        from fedconformal import monitoring

        check = _site.unpack_check(packed)
        monitoring.assess(self.calibration, [check])  # refuses what does not fit
        return check
