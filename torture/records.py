"""Records of private files replaced by anything: the number of scores and all other
scores must stay.
"""

import random
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import fedconformal as fc
from fedconformal._tables import Dialect
from fedconformal.cli._report import CaseColumns, read_cases
from torture._run import Section

PER_SEED = 40
PRIVACY = fc.Privacy(epsilon=4.0, bins=fc.Bins.uniform(0, 1, 10))
PLANS = {
    name: fc.plan(
        n_sites=3, n_points=300, confidence_level=0.5, score=name, privacy=PRIVACY
    )
    for name in ("absolute", "normalized", "cqr", "lac", "aps", "missed-labels")
}
COLUMNS = {
    "absolute": 1,
    "normalized": 2,
    "cqr": 2,
    "lac": 3,
    "aps": 3,
    "missed-labels": 2,
}
TEXTS = [
    *(
        "",
        " ",
        "NA",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "-1e999",
        "9" * 400,
        "0x10",
        "1_0",
        "1,200",
        "1.200",
    ),
    *(
        '"',
        '""',
        '"""',
        '"a',
        'a"',
        '"a""b"',
        "'",
        "\\",
        "=1+1",
        "#N/A",
        "true",
        "sep=;",
        "score",
        "-0",
        "5e-324",
    ),
    *(
        ",",
        ";",
        "\t",
        ",,,,,,,",
        ";;;;;;;",
        "\x00",
        "\x1a",
        "\x0b",
        "\x0c",
        "\x1c",
        "\x85",
        "\u2028",
        "\ufeff",
    ),
    *("\ud800", "\udfff", "é", "\u2212" + "1", "x" * 5000, "1 2", "2.5"),
]
BYTES = [
    b"\xff",
    b"\xfe\xff",
    b"\xff\xfe",
    b"\xe2\x28",
    b"\xe2\x80",
    b"\xf0\x9f",
    b"\xed\xa0\x80",
    b"\x80",
    b"\x81\n",
]
CELLS = [
    None,
    float("nan"),
    float("inf"),
    -float("inf"),
    1e308,
    -1e308,
    0.0,
    -1.0,
    5e-324,
    2.0**53,
    0.5,
]


def trial(seed: int) -> int:
    """Replace records of one file, and compare what is read."""
    rng = random.Random(seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(action="ignore"),
    ):
        kind = rng.choice([_csv, _csv, _csv, _csv, _parquet, _npy, _refused])
        return kind(rng, Path(folder))


SECTION = Section(
    "records",
    "record replacements",
    "one record changes neither the number of scores, nor another score, nor whether"
    " there is an answer",
    trial,
    runs=800,
    quick=12,
)


def outcome(path: Path, options: dict[str, object]) -> np.ndarray | str:
    """Return the scores of a private answer, or that there are none."""
    try:
        plan, dialect, named = (
            options["plan"],
            options.get("dialect"),
            ("column", "target", "prediction"),
        )
        columns = CaseColumns(**{name: options[name] for name in named})
        draw = lambda score: np.random.default_rng(7)  # noqa: E731
        return read_cases(
            plan, path, columns, dialect=dialect, private=True, draw=draw
        )[1]
    except ValueError:
        return "refused"


def compare(
    before: np.ndarray | str, after: np.ndarray | str, place: int, what: object
) -> None:
    """Raise unless one score at most differs."""
    refused = [isinstance(scores, str) for scores in (before, after)]
    assert refused[0] == refused[1], (
        f"{what!r} in record {place} changes whether there is an answer"
    )
    if not refused[0]:
        assert len(before) == len(after), (
            f"{what!r} in record {place}: {len(before)} became {len(after)} scores"
        )
        others = (
            np.arange(len(before)) != place
        )  # what follows the last line end is no record
        same = np.array_equal(before[others], after[others], equal_nan=True)
        assert same, f"{what!r} in record {place} changes another score"


# -- cases -----------------------------------------------------------------------------


def _cases(
    rng: random.Random,
) -> tuple[list[str], list[list[float]], dict[str, object]]:
    """Make the names and records of a file, and the options with which it is read."""
    n, name = rng.choice([1, 2, 3, 12, 40]), rng.choice([None, *PLANS])
    if name is None:
        names = ["score", "id"][: rng.choice([1, 2])]
        rows = [[rng.expovariate(1.0), float(i)][: len(names)] for i in range(n)]
        if rng.random() < 0.3:
            rows = [[float(round(value)) for value in row] for row in rows]
        return (
            names,
            rows,
            {
                "plan": PLANS["absolute"],
                "column": "score",
                "target": None,
                "prediction": None,
            },
        )
    if name == "missed-labels":
        heads, truths = ["p0", "p1"], ["t0", "t1"]
        rows = [
            [rng.randrange(2), rng.randrange(2), rng.random(), rng.random()]
            for _ in range(n)
        ]
        options = {"column": None, "target": ",".join(truths), "prediction": heads}
        return [*truths, *heads], rows, {"plan": PLANS[name], **options}
    if name in ("lac", "aps"):
        weights = [[rng.random() + 0.01 for _ in range(3)] for _ in range(n)]
        predicted = [[weight / sum(row) for weight in row] for row in weights]
        truth = [float(rng.randrange(3)) for _ in range(n)]
    else:
        predicted = [[rng.gauss(0, 1) for _ in range(COLUMNS[name])] for _ in range(n)]
        truth = [rng.gauss(0, 1) for _ in range(n)]
    heads = [f"p{i}" for i in range(COLUMNS[name])]
    rows = [[y, *row] for y, row in zip(truth, predicted, strict=True)]
    return (
        ["truth", *heads],
        rows,
        {"plan": PLANS[name], "column": None, "target": "truth", "prediction": heads},
    )


# -- CSV -------------------------------------------------------------------------------


def _csv(
    rng: random.Random,
    folder: Path,
    *,
    end: bytes | None = None,
    encoding: str | None = None,
) -> int:
    names, rows, options = _cases(rng)
    separator, end = rng.choice(",;\t|"), end or rng.choice([b"\n", b"\r\n"])
    encoding = encoding or rng.choice(["utf-8", "utf-8-sig", "cp1252", "latin-1"])
    decimal = rng.choice([".", ","]) if separator != "," else "."
    announced = [f"sep={separator}"] * (rng.random() < 0.2)
    requested = "|" if separator == "|" else rng.choice([None, separator])
    quoted = rng.random() < 0.3
    heads = [f'"{name}"' if quoted else name for name in names]
    if rng.random() < 0.3:
        heads[-1] += f"{separator}Größe"
    if len(heads) > 1 or requested is None:
        options["dialect"] = Dialect(requested, decimal, rng.choice([None, encoding]))
    else:
        options["dialect"] = Dialect(requested, decimal)

    def cell(value: float) -> str:
        text = repr(value).replace(".", decimal)
        return f'"{text}"' if quoted or rng.random() < 0.05 else text

    def write(records: list[bytes]) -> np.ndarray | str:
        path.write_bytes(first + end + end.join(records) + end * terminated)
        return outcome(path, options)

    first = end.decode().join([*announced, separator.join(heads)]).encode(encoding)
    records = [
        separator.join(map(cell, row)).encode(encoding.removesuffix("-sig"))
        for row in rows
    ]
    if encoding.startswith("utf-16"):
        records = [record.removeprefix(b"\xff\xfe") for record in records]
    if rng.random() < 0.2:
        records.insert(rng.randrange(len(records) + 1), b"")
    terminated, path = rng.random() < 0.7, folder / f"t.{rng.choice(['csv', 'txt'])}"
    before = write(records)
    for _ in range(PER_SEED):
        place, replaced = (
            rng.randrange(len(records)),
            _line(rng, separator, end, len(names)),
        )
        compare(
            before,
            write([*records[:place], replaced, *records[place + 1 :]]),
            place,
            replaced,
        )
    return PER_SEED


def _line(rng: random.Random, separator: str, end: bytes, width: int) -> bytes:
    """Make a record of anything but the line end of the file; other line ends are
    allowed.
    """
    pieces: list[bytes] = []
    for _ in range(rng.choice([1, 1, width, rng.randrange(8)])):
        kind = rng.random()
        if kind < 0.6:
            text = (
                rng.choice(TEXTS)
                if kind < 0.5
                else repr(rng.gauss(0, 10.0 ** rng.randrange(9)))
            )
            encoding = rng.choice(["utf-8", "cp1252", "utf-16-le"])
            pieces.append(text.encode(encoding, "replace"))
        else:
            pieces.append(rng.choice([*BYTES, rng.randbytes(rng.randrange(9))]))
    line = rng.choice([b"", separator.encode()]).join(pieces)
    while end in line:
        line = line.replace(end, b"")
    return line


def _refused(rng: random.Random, folder: Path) -> int:
    """Files in formats that a record could change: there is never an answer."""
    kind = rng.randrange(3)
    if kind == 0:
        return _csv(rng, folder, end=b"\r", encoding="utf-8")
    if kind == 1:
        return _csv(rng, folder, encoding="utf-16")
    path, options = (
        folder / "t.csv",
        {"plan": PLANS["absolute"], "column": None, "target": None},
    )
    for _ in range(PER_SEED):
        whole = [str(rng.randrange(100)).encode() for _ in range(5)]
        whole[rng.randrange(1, 5)] = _line(rng, ",", b"\n", 1)
        path.write_bytes(b"\n".join(whole) + b"\n")
        scores = outcome(path, {**options, "prediction": None, "dialect": Dialect()})
        assert isinstance(scores, str), f"{whole!r} has an answer"
    return PER_SEED


# -- Parquet and .npy ------------------------------------------------------------------


def _parquet(rng: random.Random, folder: Path) -> int:
    """Replace rows of a table of numbers, which its schema says: a column of texts is
    refused.
    """
    names, rows, options = _cases(rng)
    path = folder / "t.parquet"

    def write(rows: list[list[object]], dtype: Any = pl.Float64) -> np.ndarray | str:
        columns = [list(column) for column in zip(*rows, strict=True)]
        frame = {
            name: pl.Series(own, dtype=dtype)
            for name, own in zip(names, columns, strict=True)
        }
        pl.DataFrame(frame).write_parquet(path)
        return outcome(path, options)

    assert write([[str(cell) for cell in row] for row in rows], pl.String) == "refused"
    before, tries = write(rows), PER_SEED // 10  # each is a process
    for _ in range(tries):
        place = rng.randrange(len(rows))
        replaced = [rng.choice(CELLS) for _ in names]
        compare(
            before,
            write([*rows[:place], replaced, *rows[place + 1 :]]),
            place,
            replaced,
        )
    return tries


def _npy(rng: random.Random, folder: Path) -> int:
    names, rows, options = _cases(rng)
    if options["target"] is None:
        names, rows, options = (
            ["score"],
            [row[:1] for row in rows],
            {**options, "column": None},
        )
    else:
        renamed = [f"column_{i + 1}" for i in range(len(names))]
        options = {**options, "target": renamed[0], "prediction": renamed[1:]}
    path, order = folder / "t.npy", rng.choice("CF")

    def write(rows: list[list[object]]) -> np.ndarray | str:
        array = np.array(rows, order=order)
        np.save(path, array[:, 0] if len(names) == 1 else array)
        return outcome(path, options)

    before = write(rows)
    for _ in range(PER_SEED):
        place = rng.randrange(len(rows))
        cells = CELLS[1:] if rng.random() < 0.7 else TEXTS[:30]
        odd = [rng.choice(cells) for _ in names]
        compare(before, write([*rows[:place], odd, *rows[place + 1 :]]), place, odd)
    return PER_SEED
