"""The five regression data sets of the paper, and its Poisson process."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pooch

FOLDER = "FEDCONFORMAL_DATA"
"""Environment variable that names a folder with the files of the data sets."""

CQR = "https://raw.githubusercontent.com/yromano/cqr/master/datasets/"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/"

FILES = {
    "CASP.csv": ["4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40"],
    "bike_train.csv": [
        "0cf70c35eeb6405a40cc9e124854e2da901fa88fe7374a75d141e7401bf4c857"
    ],
    "communities.data": [
        "09e0b5c07eae24c1efab19b2edee05e160e7f5743b6f31e31eec3d73624da2ea"
    ],
    "communities_attributes.csv": [
        "7910375e27b6544045bd620efe7724afd9c90f53e711c78df7c16c3adfddcc9b"
    ],
    "STAR.csv": ["0c5dbe6e9a6d9875da4a88d588eca36068eccb77343b327d0c69cf2d8adb44eb"],
    "Concrete_Data.csv": [
        "ebfbd624c890ac455a837c294addf9ef55baa14a512e4a84ec74fb8be5b4a6e0"
    ],
    "heart/processed.cleveland.data": [
        "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
        # A common copy, in which six missing values are zeros.
        "7849bebbf4e963b402b4fc7b44df2c2682262df969f36d2c536cf6391268dec0",
    ],
    "heart/processed.hungarian.data": [
        "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796"
    ],
    "heart/processed.switzerland.data": [
        "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314"
    ],
    "heart/processed.va.data": [
        "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f"
    ],
}
"""SHA-256 of every file, and of copies that are as good."""

SOURCES = {
    "bio": ["CASP.csv"],
    "bike": ["bike_train.csv"],
    "community": ["communities.data", "communities_attributes.csv"],
    "star": ["STAR.csv"],
    "concrete": ["Concrete_Data.csv"],
    "hospitals": [name for name in FILES if name.startswith("heart/")],
}
DATA_SETS = ("bio", "bike", "community", "star", "concrete")
"""The data sets of the paper."""

FEDERATIONS = {
    "bio": ((100, 10), (10, 100)),
    "bike": ((100, 10), (10, 100)),
    "community": (
        (79, 10),
        (10, 79),
    ),  # the paper has 80, but 40 % of 1,994 rows are 797
    "star": ((80, 10), (10, 80)),
    "concrete": ((40, 10), (10, 40)),
}
"""Sites and points per site of appendix B.1, for m >> n and for m << n."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """Features and target before any split, and the two federations, as (sites, points
    per site).

    ``parts`` gives the numbers of training and calibration rows, 40 % each if left out.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    many_sites: tuple[int, int]
    few_sites: tuple[int, int]
    parts: tuple[int, int] | None = None

    @property
    def n_train(self) -> int:
        """Number of training rows."""
        return self.parts[0] if self.parts else int(0.4 * len(self.y))

    @property
    def n_calibration(self) -> int:
        """Number of calibration rows."""
        return self.parts[1] if self.parts else int(0.4 * len(self.y))


# -- files --


def cache_folder() -> Path:
    """Return the folder of downloaded files."""
    return Path(pooch.os_cache("fedconformal"))


def _folders() -> list[Path]:
    named = os.environ.get(FOLDER)
    return [*([Path(named)] if named else []), cache_folder()]


def available(name: str) -> bool:
    """Return whether all files of a data set are on this machine."""
    return all(
        any((folder / file).exists() for folder in _folders()) for file in SOURCES[name]
    )


def find(name: str, *, download: bool = False) -> list[Path]:
    """Return the paths of the files of a data set, each checked by its SHA-256.

    Files are looked for in the folder that ``FEDCONFORMAL_DATA`` names, then in the
    cache folder, to which ``download`` fetches them.
    """
    return [_find(name, file, download) for file in SOURCES[name]]


def _find(name: str, file: str, download: bool) -> Path:
    hashes = FILES[file]
    published = (UCI if file.startswith("heart/") else CQR) + Path(file).name
    for folder in _folders():
        path = folder / file
        if path.exists():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            if content not in hashes:
                raise ValueError(
                    f"{path} is not the published file: SHA-256 {content}, expected"
                    f" {hashes[0]}"
                )
            return path
    if not download:
        looked = " or ".join(str(folder) for folder in _folders())
        raise FileNotFoundError(
            f"{name}: {file} is not in {looked}. Use --download to fetch it from"
            f" {published}, or set {FOLDER} to a folder that has it"
        )
    target = cache_folder() / file
    return Path(
        pooch.retrieve(
            published, f"sha256:{hashes[0]}", fname=target.name, path=target.parent
        )
    )


# -- the data sets of the paper, after the conventions of the CQR paper's code --


def load(name: str, *, download: bool = False) -> DataSet:
    """Read a data set of the paper."""
    if name not in DATA_SETS:
        raise ValueError(
            f"data set must be one of {', '.join(DATA_SETS)}, got {name!r}"
        )
    X, y = globals()[f"_{name}"](*find(name, download=download))
    return DataSet(
        name, np.asarray(X, dtype=float), np.asarray(y, dtype=float), *FEDERATIONS[name]
    )


def _bio(path):
    table = pd.read_csv(path)
    return table.iloc[:, 1:], table.iloc[:, 0]


def _bike(path):
    table = pd.read_csv(path, parse_dates=["datetime"])
    time = table["datetime"].dt
    columns = [
        table[column] == value
        for column in ("season", "weather")
        for value in range(1, 5)
    ]
    columns += [
        table[c]
        for c in ("holiday", "workingday", "temp", "atemp", "humidity", "windspeed")
    ]
    return (
        np.column_stack([*columns, time.hour, time.day_of_week, time.month, time.year]),
        table["count"],
    )


def _community(data, attributes):
    """Leave out the identifying columns and those with gaps; fill the one gap of
    OtherPerCap.
    """
    names = [
        line.split()[0]
        for line in attributes.read_text().splitlines()[1:]
        if line.strip()
    ]
    table = pd.read_csv(data, names=names, na_values="?").iloc[:, 5:]
    gap = table["OtherPerCap"].isna()
    table.loc[gap, "OtherPerCap"] = np.nanmean(table["OtherPerCap"].to_numpy())
    complete = table.dropna(axis="columns").to_numpy()
    return complete[:, :100], complete[:, 100]


STAR_MARKS = [
    f"{subject}{year}" for subject in ("read", "math") for year in ("k", "1", "2", "3")
]


def _star(path):
    """Take complete rows, categories as integers; the target is the sum of the eight
    marks.
    """
    table = pd.read_csv(
        path, index_col=0, keep_default_na=False, na_values="NA"
    ).dropna()
    features = table.drop(columns=STAR_MARKS)
    return np.column_stack([_as_numbers(features[name]) for name in features]), table[
        STAR_MARKS
    ].sum(axis=1)


def _concrete(path):
    table = pd.read_csv(path)
    return table.iloc[:, :-1], table.iloc[:, -1]


def _as_numbers(column: pd.Series) -> np.ndarray:
    """Return numbers as they are, and words by their place in the alphabet."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(dtype=float)
    return np.unique(column.astype(str), return_inverse=True)[1].astype(float)


def poisson(
    n_train: int = 1000, n_calibration: int = 1000, n_test: int = 5000, *, rng=0
) -> DataSet:
    """Draw the process of section 5.1: a Poisson response of one feature, with a few
    large outliers.
    """
    n, rng = n_train + n_calibration + n_test, np.random.default_rng(rng)
    x = rng.uniform(1, 5, size=n)
    y = rng.poisson(np.sin(x) ** 2 + 0.1) + 0.03 * x * rng.standard_normal(n)
    y += 25 * (rng.random(n) < 0.01) * rng.standard_normal(n)
    sites = min(100, n_calibration // 10)
    return DataSet(
        "synthetic", x[:, None], y, (sites, 10), (10, sites), (n_train, n_calibration)
    )
