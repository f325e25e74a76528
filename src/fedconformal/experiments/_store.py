"""What a run leaves on disk: a fit per split, so that an interrupted run goes on, and a tidy table."""

import gzip
import hashlib
import json
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal._extras import need
from fedconformal._outputs import write_atomically
from fedconformal._text import one_line
from fedconformal._typing import Floats
from fedconformal.experiments._data import DataSet
from fedconformal.experiments._models import Model, settings

Rows = list[dict[str, Any]]
"""A tidy table: one dictionary for each row."""


@dataclass(frozen=True, eq=False)
class Fit:
    """All that calibration needs of a model trained on one split: its predictions, and what was true.

    Parameters
    ----------
    y_calibration, calibration : array
        Truth and predictions of the calibration part.
    y_test, test : array
        Truth and predictions of the test part.
    n_train : int
        Rows of the training part.
    seconds : float
        Processor time of the fit.
    """

    y_calibration: Floats
    calibration: Floats
    y_test: Floats
    test: Floats
    n_train: int
    seconds: float

    def save(self, path: Path) -> None:
        """Write it; a reader sees the whole file or none."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda temporary: np.savez(temporary, **vars(self)), force=True)

    @classmethod
    def read(cls, path: Path) -> "Fit":
        """Read it; ValueError if the file is not a whole fit."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
                arrays = {name: content[name] for name in content.files}
            n_train, seconds = int(arrays.pop("n_train")), float(arrays.pop("seconds"))
            return cls(**arrays, n_train=n_train, seconds=seconds)
        except (OSError, ValueError, TypeError, KeyError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            raise ValueError(f"{path}: not a whole fit: {one_line(str(error), 200)}") from None


class Store:
    """A folder: fits by what they depend on, and results by study.

    Parameters
    ----------
    folder : Path
        Nothing is written there yet.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fedconformal.experiments import Store
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(Path(folder))
    ...     store.save_results("coverage", [{"method": "FedCP-QQ", "coverage": 0.91}])
    ...     print(store.read_results("coverage"), store.read_results("intervals"))
    [{'method': 'FedCP-QQ', 'coverage': 0.91}] []
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fit_path(self, dataset: DataSet, model: Model, split: int) -> Path:
        """Where the fit of a split lies: the name changes with the data and every setting of the model.

        Parameters
        ----------
        dataset : DataSet
            What was split.
        model : Model
            What was trained.
        split : int
            Which split.

        Returns
        -------
        Path
            Of a file that may not be there yet.
        """
        depends = {"data": dataset.digest, "parts": dataset.parts, "model": model.name, **settings(model)}
        key = hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()[:16]
        return self.folder / "fits" / f"{dataset.name}-{model.name}-{key}-{split:02}.npz"

    def has_fit(self, path: Path) -> bool:
        """Whether a fit lies there; one that is damaged is removed with a warning, to be made anew.

        Parameters
        ----------
        path : Path
            Of a fit, as `fit_path` says.

        Returns
        -------
        bool
            False also after it was removed.
        """
        if not path.exists():
            return False
        try:
            Fit.read(path)
        except ValueError as error:
            path.unlink()
            warnings.warn(f"{error}; it is made anew", stacklevel=2)
            return False
        return True

    def results_path(self, study: str, kind: str = "parquet") -> Path:
        """Where the table of a study lies.

        Parameters
        ----------
        study : str
            Name of the study.
        kind : str
            ``"parquet"`` or ``"csv"``.

        Returns
        -------
        Path
            Of a file that may not be there yet.
        """
        return self.folder / "results" / f"{study}.{kind}"

    def save_results(self, study: str, rows: Rows) -> None:
        """Write the table of a study as Parquet and CSV.

        Parameters
        ----------
        study : str
            Name of the study.
        rows : list of dict
            What it found.
        """
        frame = need("polars", extra="experiments").DataFrame(rows, infer_schema_length=None)
        for kind, write in (("parquet", frame.write_parquet), ("csv", frame.write_csv)):
            path = self.results_path(study, kind)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, write, force=True)

    def save_compressed(self, name: str, rows: Rows) -> Path:
        """Write a table as compressed CSV; the same rows give the same file.

        Parameters
        ----------
        name : str
            Of the table.
        rows : list of dict
            What it holds.

        Returns
        -------
        Path
            The file.
        """
        frame = need("polars", extra="experiments").DataFrame(rows, infer_schema_length=None)
        path = self.results_path(name, "csv.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        content = gzip.compress(frame.write_csv().encode(), mtime=0)
        write_atomically(path, lambda temporary: Path(temporary).write_bytes(content), force=True)
        return path

    def read_results(self, study: str) -> Rows:
        """Read the table of a study.

        Parameters
        ----------
        study : str
            Name of the study.

        Returns
        -------
        list of dict
            Its rows; none if it was not run.
        """
        path = self.results_path(study)
        if not path.exists():
            return []
        polars = need("polars", extra="experiments")
        try:
            rows: Rows = polars.read_parquet(path).to_dicts()
        except (OSError, polars.exceptions.PolarsError) as error:
            words = one_line(str(error), 200)
            raise ValueError(f"{path}: cannot be read: {words}; run the study {study!r} again") from None
        return rows


def mean(rows: Rows, column: str) -> float:
    """Mean of a column."""
    return float(np.mean([row[column] for row in rows]))


def select(rows: Sequence[dict[str, Any]], **values: Any) -> Rows:
    """The rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def distinct(rows: Sequence[dict[str, Any]], column: str) -> list[Any]:
    """The values of a column, in the order of their first appearance."""
    return list(dict.fromkeys(row[column] for row in rows))
