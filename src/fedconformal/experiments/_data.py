"""The paper's data: five regression data sets, its Poisson process, and any table of yours."""

import hashlib
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal._extras import need
from fedconformal._tables import Table, read_table
from fedconformal._typing import Floats

DATA_ADDRESS = "https://raw.githubusercontent.com/yromano/cqr/master/datasets/"
"""Where the data sets are published, beside the code of the CQR paper."""

DATA_FOLDER = "FEDCONFORMAL_DATA"
"""Environment variable: a folder that holds the files of the data sets."""


class MissingDataError(ValueError):
    """A data set that is nowhere on this machine; says how to get it."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """Features and target as read, before any split.

    Parameters
    ----------
    name : str
        What tables and figures call it.
    X : array of shape (n, n_features)
        Features.
    y : array of shape (n,)
        What is to be predicted.
    many_sites, few_sites : tuple of int
        The paper's two federations, as (sites, points each): m >> n and m << n.
    parts : tuple of int, optional
        How many rows train and calibrate, 40 % each if left out; the other rows test.

    Raises
    ------
    ValueError
        If there are fewer than 50 rows, or numbers that are not finite.

    Examples
    --------
    >>> from fedconformal.experiments import poisson
    >>> poisson(100, 200, 100).name
    'synthetic'
    """

    name: str
    X: Floats
    y: Floats
    many_sites: tuple[int, int]
    few_sites: tuple[int, int]
    parts: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Refuse what no model could learn from."""
        if self.X.ndim != 2 or self.y.shape != (len(self.X),) or len(self.X) < 50:
            raise ValueError(
                f"{self.name}: at least 50 rows of features and as many targets are needed, "
                f"got shapes {self.X.shape} and {self.y.shape}"
            )
        if not (np.isfinite(self.X).all() and np.isfinite(self.y).all()):
            raise ValueError(f"{self.name}: features and targets must be finite numbers")

    @property
    def n_train(self) -> int:
        """How many rows train."""
        return self.parts[0] if self.parts else int(0.4 * len(self.y))

    @property
    def n_calibration(self) -> int:
        """How many rows calibrate."""
        return self.parts[1] if self.parts else int(0.4 * len(self.y))

    @property
    def digest(self) -> str:
        """SHA-256 of the numbers: what a cached fit depends on."""
        content = hashlib.sha256(np.ascontiguousarray(self.X).tobytes())
        content.update(np.ascontiguousarray(self.y).tobytes())
        return content.hexdigest()


@dataclass(frozen=True)
class File:
    """A published file.

    Parameters
    ----------
    path : str
        Where it lies in a folder of data.
    shas : tuple of str
        SHA-256 of the published file, and of copies that are as good.
    address : str
        Of the folder in which it is published under its name.
    """

    path: str
    shas: tuple[str, ...]
    address: str

    @property
    def published(self) -> str:
        """Its whole address."""
        return self.address + Path(self.path).name

    def is_here(self, folder: Path | None) -> bool:
        """Whether it is in one of the places where data is looked for."""
        return any((place / self.path).exists() for place in _places(folder))


@dataclass(frozen=True)
class _Source:
    """Files with their SHA-256, how to read them, and the paper's federations."""

    files: Mapping[str, str]
    read: Callable[[dict[str, Path]], tuple[Floats, Floats]]
    many_sites: tuple[int, int]
    few_sites: tuple[int, int]

    @property
    def published(self) -> list[File]:
        """The files, with where they are published."""
        return [File(name, (sha,), DATA_ADDRESS) for name, sha in self.files.items()]


def load(name: str, *, folder: Path | None = None, download: bool = False) -> DataSet:
    """Read one of the paper's data sets.

    Every file is checked by SHA-256.

    Parameters
    ----------
    name : str
        One of `DATA_SETS`.
    folder : Path, optional
        Where to look first, instead of the folder that the variable FEDCONFORMAL_DATA names; then in the
        cache folder.
    download : bool
        Whether files that are nowhere are fetched into the cache from where they are published.

    Returns
    -------
    DataSet
        With the paper's federations.

    Raises
    ------
    MissingDataError
        If a file is nowhere; says how to get it.
    ValueError
        If there is no such data set, or a file is not the one that the paper used.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fedconformal.experiments import load
    >>> load("iris")
    Traceback (most recent call last):
    ValueError: no data set 'iris'; there are bio, bike, community, star, concrete
    >>> with TemporaryDirectory() as folder:
    ...     (Path(folder) / "Concrete_Data.csv").touch()
    ...     load("concrete", folder=Path(folder))
    Traceback (most recent call last):
    ValueError: ...Concrete_Data.csv: is not the published file (SHA-256 e3b0..., not ebfb...)
    """
    source = _SOURCES.get(name)
    if source is None:
        raise ValueError(f"no data set {name!r}; there are {', '.join(_SOURCES)}")
    paths = {file.path: find(name, file, folder, download) for file in source.published}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the files are known, columns and all
        X, y = source.read(paths)
    return DataSet(name, X, y, source.many_sites, source.few_sites)


def available(*, folder: Path | None = None) -> list[str]:
    """Names of the paper's data sets whose files are on this machine.

    Parameters
    ----------
    folder : Path, optional
        As for `load`.

    Returns
    -------
    list of str
        In the order of `DATA_SETS`.

    Examples
    --------
    >>> from fedconformal.experiments import available
    >>> isinstance(available(), list)
    True
    """
    return [
        name for name, source in _SOURCES.items() if all(file.is_here(folder) for file in source.published)
    ]


def cache_folder() -> Path:
    """Where downloaded files are kept."""
    return Path(need("pooch", extra="experiments").os_cache("fedconformal"))


def _places(folder: Path | None) -> list[Path]:
    named = folder or (Path(os.environ[DATA_FOLDER]) if os.environ.get(DATA_FOLDER) else None)
    return [*([named] if named else []), cache_folder()]


def find(study: str, file: File, folder: Path | None, download: bool) -> Path:
    """Find a file, fetch it if that is wanted, and check it.

    Parameters
    ----------
    study : str
        Which study needs it.
    file : File
        What is looked for.
    folder : Path, optional
        Where to look first, as for `load`.
    download : bool
        Whether it is fetched into the cache if it is nowhere.

    Returns
    -------
    Path
        Of the file, whose SHA-256 is right.

    Raises
    ------
    MissingDataError
        If it is nowhere; says how to get it.
    ValueError
        If it is another file.
    """
    places = _places(folder)
    for place in places:
        path = place / file.path
        if path.exists():
            return _checked(path, file.shas)
    if not download:
        looked = " or ".join(str(place) for place in places)
        raise MissingDataError(
            f"{study}: {file.path} is not in {looked}. 'fedconformal reproduce {study} --download' fetches "
            f"it from {file.published}; if you have it, name its folder with --data or {DATA_FOLDER}"
        )
    return _fetch(file)


def _fetch(file: File) -> Path:
    pooch = need("pooch", extra="experiments")
    target = cache_folder() / file.path
    try:
        return Path(
            pooch.retrieve(
                file.published, known_hash=f"sha256:{file.shas[0]}", fname=target.name, path=target.parent
            )
        )
    except ValueError:
        raise ValueError(
            f"{file.published}: is not the file that was expected (SHA-256 {file.shas[0]})"
        ) from None
    except Exception as error:  # requests, urllib3 and ftplib each have their own
        raise OSError(f"{file.published}: cannot be fetched: {' '.join(str(error).split())[:200]}") from None


def _checked(path: Path, shas: tuple[str, ...]) -> Path:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found not in shas:
        raise ValueError(f"{path}: is not the published file (SHA-256 {found}, not {shas[0]})")
    return path


# -- readers: the conventions of the CQR paper's code -------------------------------------------------------


def _bio(paths: dict[str, Path]) -> tuple[Floats, Floats]:
    """The target, RMSD, is the first column."""
    cells = read_table(paths["CASP.csv"])
    table = cells.numbers(cells.columns)
    return table[:, 1:], table[:, 0]


def _bike(paths: dict[str, Path]) -> tuple[Floats, Floats]:
    """Season and weather one-hot; hour, weekday, month and year as numbers; count is the target."""
    table = read_table(paths["bike_train.csv"])
    plain = ["holiday", "workingday", "temp", "atemp", "humidity", "windspeed"]
    one_hot = [table.numbers([column]) == value for column in ("season", "weather") for value in range(1, 5)]
    times = [datetime.fromisoformat(text) for text in table.labels("datetime")]
    clock = np.array([[t.hour, t.weekday(), t.month, t.year] for t in times], dtype=float)
    X = np.hstack([*one_hot, table.numbers(plain), clock])
    return X, table.numbers(["count"])[:, 0]


def _community(paths: dict[str, Path]) -> tuple[Floats, Floats]:
    """Without the five identifying columns and those with gaps, except OtherPerCap, filled with its mean."""
    lines = paths["communities_attributes.csv"].read_text().split("\n")[1:]
    names = [line.split()[0] for line in lines if line.strip()]
    cells = [line.split(",") for line in paths["communities.data"].read_text().split()]
    columns = []
    for name, column in list(zip(names, zip(*cells, strict=True), strict=True))[5:]:
        values = np.array([np.nan if cell == "?" else float(cell) for cell in column])
        if name == "OtherPerCap":
            values[np.isnan(values)] = np.nanmean(values)
        if not np.isnan(values).any():
            columns.append(values)
    table = np.column_stack(columns)
    return table[:, :100], table[:, 100]


def _star(paths: dict[str, Path]) -> tuple[Floats, Floats]:
    """Complete rows; categories as integers; the target is the sum of the eight marks."""
    polars = need("polars", extra="experiments")
    table = read_table(paths["STAR.csv"])
    frame = table.frame.with_columns(polars.all().replace("NA", None)).drop_nulls()
    marks = [f"{subject}{year}" for subject in ("read", "math") for year in ("k", "1", "2", "3")]
    kept = [name for name in frame.columns[1:] if name not in marks]  # the first column counts the rows
    return (
        np.column_stack([_as_integers(frame[name].to_list()) for name in kept]),
        Table(table.name, frame).numbers(marks).sum(axis=1),
    )


def _concrete(paths: dict[str, Path]) -> tuple[Floats, Floats]:
    """The target is the last column."""
    cells = read_table(paths["Concrete_Data.csv"])
    table = cells.numbers(cells.columns)
    return table[:, :-1], table[:, -1]


def _as_integers(cells: list[str]) -> Floats:
    """Numbers as they are; words by their place in the alphabet."""
    try:
        return np.array([float(cell) for cell in cells])
    except ValueError:
        return np.unique(cells, return_inverse=True)[1].astype(float)


# The paper has 80 x 10 for community, but 40 % of its 1,994 rows are 797.
_SOURCES = {
    "bio": _Source(
        {"CASP.csv": "4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40"},
        _bio,
        (100, 10),
        (10, 100),
    ),
    "bike": _Source(
        {"bike_train.csv": "0cf70c35eeb6405a40cc9e124854e2da901fa88fe7374a75d141e7401bf4c857"},
        _bike,
        (100, 10),
        (10, 100),
    ),
    "community": _Source(
        {
            "communities.data": "09e0b5c07eae24c1efab19b2edee05e160e7f5743b6f31e31eec3d73624da2ea",
            "communities_attributes.csv": "7910375e27b6544045bd620efe7724afd9c90f53e711c78df7c16c3adfddcc9b",
        },
        _community,
        (79, 10),
        (10, 79),
    ),
    "star": _Source(
        {"STAR.csv": "0c5dbe6e9a6d9875da4a88d588eca36068eccb77343b327d0c69cf2d8adb44eb"},
        _star,
        (80, 10),
        (10, 80),
    ),
    "concrete": _Source(
        {"Concrete_Data.csv": "ebfbd624c890ac455a837c294addf9ef55baa14a512e4a84ec74fb8be5b4a6e0"},
        _concrete,
        (40, 10),
        (10, 40),
    ),
}

DATA_SETS = tuple(_SOURCES)
"""The paper's five data sets."""


# -- data that need no file, or yours -----------------------------------------------------------------------


def poisson(n_train: int = 1000, n_calibration: int = 1000, n_test: int = 5000, *, rng: Any = 0) -> DataSet:
    """Draw the process of section 5.1: a Poisson response of one feature, with a few large outliers.

    Parameters
    ----------
    n_train, n_calibration, n_test : int
        How many rows each part has.
    rng : None, int or numpy Generator
        Where randomness comes from.

    Returns
    -------
    DataSet
        Called "synthetic".

    Examples
    --------
    >>> from fedconformal.experiments import poisson
    >>> poisson(100, 200, 100).X.shape
    (400, 1)
    """
    n, source = n_train + n_calibration + n_test, np.random.default_rng(rng)
    x = source.uniform(1, 5, size=n)
    y = source.poisson(np.sin(x) ** 2 + 0.1) + 0.03 * x * source.standard_normal(n)
    y += 25 * (source.random(n) < 0.01) * source.standard_normal(n)
    return DataSet("synthetic", x[:, None], y, *_federations(n_calibration), (n_train, n_calibration))


def from_table(path: Path, target: str) -> DataSet:
    """Make a data set of a CSV or Parquet file.

    Parameters
    ----------
    path : Path
        The file; numbers and categories in its columns are features.
    target : str
        The column that is to be predicted.

    Returns
    -------
    DataSet
        Called as the file.

    Raises
    ------
    ValueError
        If there is no such column, no other one, or a cell is empty.

    Examples
    --------
    >>> import os
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fedconformal.experiments import from_table
    >>> lines = ["age,dose", *(f"{i},{i * i}" for i in range(50))]
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "table.csv"
    ...     _ = path.write_text(os.linesep.join(lines))
    ...     print(from_table(path, "dose").X.shape)
    (50, 1)
    """
    table = read_table(path)
    frame = table.frame
    y = table.numbers([target])[:, 0]
    features = [name for name in frame.columns if name != target]
    if not features:
        raise ValueError(f"{path}: {target!r} is its only column, there are no features")
    columns = []
    for name in features:
        if frame[name].null_count():
            raise ValueError(f"{path}: column {name!r} has {frame[name].null_count()} empty cells")
        columns.append(_feature(table, name))
    return DataSet(path.stem, np.column_stack(columns), y, *_federations(int(0.4 * len(y))))


def _feature(table: Table, name: str) -> Floats:
    """Numbers as the table has them, with decimal commas too; else words by their place in the alphabet."""
    try:
        return table.numbers([name])[:, 0]
    except ValueError:
        return _as_integers([str(cell) for cell in table.frame[name]])


def _federations(n_calibration: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The paper's kind of federations: at most a hundred sites of ten points, and the other way round."""
    sites = min(100, n_calibration // 10)
    return (sites, 10), (10, sites)
