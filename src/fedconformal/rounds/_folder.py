"""Folder of a round, with its answers and its model: a coordinator that dies goes on
from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import count as count_from
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedconformal._files import open_to_append, write_atomically, write_text
from fedconformal._text import one_line
from fedconformal._util import plain_array, read_regular
from fedconformal.documents import DocumentError, Plan, Refusal, Report
from fedconformal.documents._base import paused_collector

Node = TypeVar("Node", bound=Hashable)

PLAN_FILE = "plan.json"
"""Name of the plan's file in a folder of kept reports."""
_MODEL, _PARAMETERS, _REFUSED, _COMPLETE = (
    "model.txt",
    "model.npz",
    "refused.jsonl",
    "complete",
)
_MOST_NOTED = 2**27  # bytes of the list of refusals: a line for each node at the most


class Folder:
    """Folder of one round: the plan, and a report from each node that sent one.

    ``fedconformal calibrate`` takes ``plan.json`` and the other ``.json`` files; a
    report that came another way may be put there too. ``refused.jsonl`` lists replies
    that were refused on arrival. Once there is a file ``complete``, nobody is asked any
    more; without it, sites that have not answered are asked again. ``model.npz`` has
    the model, as retraining hardly ever gives the same one.

    Parameters
    ----------
    path : str or Path
        The folder; it is made if it does not exist.
    plan : Plan
        The plan that is answered. A folder holds the answers to one plan.
    model : str, optional
        Digest of the model that goes with the plan, whether or not the plan names it:
        answers under one model do not count under another. Left out for a folder that
        keeps its model: that one.
    parameters : mapping, optional
        The model itself, arrays by their names, to be kept; `read_model` gives it back.

    Attributes
    ----------
    model : str or None
        Digest of the model of this round.

    Raises
    ------
    ValueError
        If the folder holds the answers to another plan or under another model, or other
        files.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=3, n_points=40)
    >>> with TemporaryDirectory() as folder:
    ...     print(fc.rounds.Folder(folder, plan).is_complete)
    False
    """

    def __init__(
        self,
        path: str | Path,
        plan: Plan,
        *,
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self.model = Path(path), model
        kept, model_file, saved = (
            self.path / name for name in (PLAN_FILE, _MODEL, _PARAMETERS)
        )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not kept.exists() and any(self.path.iterdir()):
                raise ValueError(
                    f"reports must be a new folder, or one with a {PLAN_FILE}, got"
                    f" {path}"
                )
        except OSError as error:
            raise ValueError(
                f"reports must be a folder, got {path}: {error.strerror or error}"
            ) from None
        if not kept.exists():
            write_text(kept, plan.to_json() + "\n", force=False)
        elif Plan.read(kept).digest != plan.digest:
            raise ValueError(
                f"reports must be of this plan, but {path} answers another one, {kept}"
            )
        if not model_file.exists():  # nobody has answered yet
            saved.unlink(missing_ok=True)
            if parameters is not None:
                write_atomically(saved, partial(_save, parameters), force=False)
            write_text(model_file, f"{model or 'none'}\n", force=False)
            return
        before = one_line(read_regular(model_file, 200).decode(errors="replace"), 200)
        if model is None and saved.exists():
            self.model = before
        elif before != (model or "none"):
            raise ValueError(
                f"reports must be the folder of this model: {path} holds answers under"
                f" another one ({before}, not {model or 'none'})"
            )

    @staticmethod
    def read_model(path: str | Path) -> dict[str, Any] | None:
        """Read the model that the folder of a round keeps.

        Parameters
        ----------
        path : str or Path
            The folder, which need not exist.

        Returns
        -------
        dict or None
            Arrays by their names, in their order; None if it keeps none.

        Raises
        ------
        ValueError
            If the file cannot be read.
        """
        saved = Path(path) / _PARAMETERS
        if not saved.exists():
            return None
        try:
            with np.load(saved, allow_pickle=False) as arrays:
                names = json.loads(arrays["names"].tobytes())
                return {name: arrays[f"arr_{i}"] for i, name in enumerate(names)}
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            EOFError,
            zipfile.BadZipFile,
            zlib.error,
        ) as error:
            raise ValueError(
                f"{saved}: not a model that was kept: {one_line(str(error), 200)}"
            ) from None

    @property
    def is_complete(self) -> bool:
        """True if the round is over."""
        return (self.path / _COMPLETE).exists()

    def complete(self) -> None:
        """Note that the round is over: nobody is asked any more."""
        open_to_append(self.path / _COMPLETE).close()

    def keep(self, node: str, name: str, report: Report) -> None:
        """Write the report of a node, by its number and registered name, before
        anything is done with it.
        """
        write_text(
            self.path / self._file(node, name), report.to_json() + "\n", force=True
        )

    def keep_refusal(self, node: str | None, refusal: Refusal) -> None:
        """Write a refusal on arrival; the node is None if the sender is unknown."""
        line = {"node": node, "source": refusal.source, "reason": refusal.reason}
        with open_to_append(self.path / _REFUSED) as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def answered(self, nodes: Mapping[Node, str]) -> set[Node]:
        """Return the nodes, given with their names, whose report is here, or was
        refused.
        """
        refused, files = (
            {line["node"] for line in self._refusals()},
            set(os.listdir(self.path)),
        )
        return {
            node
            for node, name in nodes.items()
            if str(node) in refused or self._file(str(node), name) in files
        }

    def read(self) -> tuple[list[Report], list[Refusal]]:
        """Read the answers that have arrived so far, for `fedconformal.calibrate`."""
        reports, unreadable = read_reports(
            path for path in list_json(self.path) if path.name != PLAN_FILE
        )
        refused = [
            Refusal(source=line["source"], reason=line["reason"])
            for line in self._refusals()
        ]
        return reports, refused + unreadable

    def _refusals(self) -> list[dict[str, str]]:
        """Return the refusals whose lines are complete."""
        file = self.path / _REFUSED
        text = read_regular(file, _MOST_NOTED).decode() if file.exists() else ""
        return [
            json.loads(line)
            for line in text.splitlines(keepends=True)
            if line.endswith("\n")
        ]

    @staticmethod
    def _file(node: str, name: str) -> str:
        return file_name("report", name or node, f"{node}\n{name}")


def file_name(kind: str, name: str, key: str) -> str:
    """Return the name of a file: recognisable by ``name``, and unique for any ``key``.

    Examples
    --------
    >>> from fedconformal.rounds._folder import file_name
    >>> file_name("report", "St. Mary's", "St. Mary's")
    'report-St_Mary_s-e7787f2f430d.json'
    """
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{kind}-{re.sub(r'[^A-Za-z0-9_-]+', '_', name)[:60]}-{digest[:12]}.json"


def _save(parameters: Mapping[str, Any], path: Path) -> None:
    """Write arrays, and their names as the bytes of JSON, without any pickle."""
    arrays = [plain_array(values) for values in parameters.values()]
    for name, array in zip(parameters, arrays, strict=True):
        if (
            array.dtype.kind not in "biufcUS"
        ):  # others need pickles, or come back as something else
            raise ValueError(
                f"parameter {name!r} of the model must be an array of numbers to be"
                " kept"
            )
    names = np.frombuffer(
        json.dumps([str(name) for name in parameters]).encode(), dtype=np.uint8
    )
    np.savez(path, *arrays, names=names)


def new_folder(base: str | Path, plan: Plan) -> Path:
    """Make a new folder for a round; one that is given again itself is resumed.

    Parameters
    ----------
    base : str or Path
        The folder that holds the folders of all rounds; it is made if it does not
        exist.
    plan : Plan
        The plan to be answered.

    Returns
    -------
    Path
        Absolute: the date, eight digits of the plan's digest, and a number from the
        second round on.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import fedconformal as fc
    >>> with TemporaryDirectory() as base:
    ...     fc.rounds.new_folder(base, fc.plan(n_sites=3, n_points=40)).name[10:]
    '-7b3cd0a0'
    """
    digits = plan.digest.partition(":")[2][:8]
    name = f"{datetime.now(UTC):%Y-%m-%d}-{digits}"
    for number in count_from(1):
        path = Path(base).resolve() / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise ValueError(
                f"reports must be a folder, got {base}: {error.strerror or error}"
            ) from None
        return path
    raise AssertionError  # the numbers do not end


def list_json(folder: Path) -> Iterator[Path]:
    """Yield the .json files of a folder in the order of their names, without a path for
    each at once.

    Hidden ones are left out: they are what is left of a file that was being written.
    """
    names = sorted(os.listdir(folder))
    return (
        folder / name
        for name in names
        if name.endswith(".json") and not name.startswith(".")
    )


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
