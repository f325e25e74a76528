"""Answers kept as they arrive, so that a coordinator that dies loses nothing."""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from fedconformal._outputs import write_text
from fedconformal.documents import DocumentError, Plan, Refusal, Report

PLAN_FILE = "plan.json"
"""Name of the plan's file in a folder of kept reports."""
_MODEL, _REFUSED, _COMPLETE = "model.txt", "refused.jsonl", "complete"


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
        kept = self.path / PLAN_FILE
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not kept.exists() and any(self.path.iterdir()):
                raise ValueError(
                    f"reports must be a new folder, or one with the {PLAN_FILE} of a round: {path}"
                )
        except OSError as error:
            raise ValueError(f"reports must be a folder, got {path}: {error.strerror or error}") from None
        if not kept.exists():
            write_text(kept, plan.to_json() + "\n", force=False)
        elif Plan.read(kept).digest != plan.digest:
            raise ValueError(
                f"reports must be the folder of this plan: {path} holds the answers to another one, {kept}"
            )
        self._check_model(model or "none")

    def _check_model(self, model: str) -> None:
        file = self.path / _MODEL
        if not file.exists():
            write_text(file, f"{model}\n", force=False)
        elif (kept := file.read_text(encoding="utf-8").strip()) != model:
            raise ValueError(
                f"reports must be the folder of this model: {self.path} holds answers under another one "
                f"({kept}, not {model})"
            )

    @property
    def is_complete(self) -> bool:
        """True if the round is over."""
        return (self.path / _COMPLETE).exists()

    def complete(self) -> None:
        """Note that the round is over: nobody is asked any more."""
        (self.path / _COMPLETE).touch()

    def keep(self, node: str, name: str, report: Report) -> None:
        """Write a report, before anything else is done with it.

        Parameters
        ----------
        node, name : str
            The engine's number of the node that sent it, and its registered name, if any.
        report : Report
            The report.
        """
        write_text(self._file(node, name), report.to_json() + "\n", force=True)

    def keep_refusal(self, node: str | None, refusal: Refusal) -> None:
        """Write a refusal on arrival.

        Parameters
        ----------
        node : str or None
            As for ``keep``; None if the sender is unknown.
        refusal : Refusal
            The source of the answer, and the reason.
        """
        line = {"node": node, "source": refusal.source, "reason": refusal.reason}
        with (self.path / _REFUSED).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def has(self, node: str, name: str) -> bool:
        """Return whether the answer of a node is here.

        Parameters
        ----------
        node, name : str
            As for ``keep``.

        Returns
        -------
        bool
            True if its report is here, or was refused.
        """
        return self._file(node, name).exists() or any(line["node"] == node for line in self._refusals())

    def read(self) -> tuple[list[Report], list[Refusal]]:
        """Read the answers that have arrived so far.

        Returns
        -------
        reports, refused : list of Report and list of Refusal
            For `fedconformal.calibrate`.
        """
        files = [path for path in sorted(self.path.glob("*.json")) if path.name != PLAN_FILE]
        reports, unreadable = read_reports(files)
        refused = [Refusal(source=line["source"], reason=line["reason"]) for line in self._refusals()]
        return reports, refused + unreadable

    def _refusals(self) -> list[dict[str, str]]:
        """Return the refusals whose lines are complete."""
        file = self.path / _REFUSED
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def _file(self, node: str, name: str) -> Path:
        """Return the file of a node: recognisable and unique for any name."""
        digest = hashlib.sha256(f"{node}\n{name}".encode()).hexdigest()
        shown = re.sub(r"[^A-Za-z0-9_-]+", "_", name or node)
        return self.path / f"report-{shown[:60]}-{digest[:12]}.json"


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
    for path in paths:
        try:
            reports.append(Report.read(path))
        except DocumentError as error:
            reason = str(error).removeprefix(f"{path}: ")
            unreadable.append(Refusal(source=str(path), reason=reason))
    return reports, unreadable
