"""Options that several commands share, and their names in messages."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write the result.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

CalibrationFile = Annotated[Path, typer.Argument(metavar="CALIBRATION", help="The calibration.")]
GroupColumn = Annotated[
    str | None, typer.Option("--group", metavar="COLUMN", help="For groups: column with each case's group.")
]
OneLabel = Annotated[
    str | None, typer.Option("--label", metavar="LABEL", help="One group, where there are groups.")
]
Policy = Annotated[
    Path | None, typer.Option(help="Limits on what this site discloses, from `fedconformal policy new`.")
]
LedgerFile = Annotated[Path | None, typer.Option(help="For a private answer: this site's ledger.")]
DataSet = Annotated[
    str | None, typer.Option(help="For a private answer: name of the data set in the ledger.")
]
FACTS = "name, version, purpose, population, period, unit, coordinator, contact, check_again, date"
Model = Annotated[Path | None, typer.Option(help="File of the model, whose digest the plan holds.")]
Sign = Annotated[Path | None, typer.Option("--sign", help="Private key of the coordinator, who signs it.")]
OneLevel = Annotated[float | None, typer.Option(help="One of the levels, where there are several.")]

Separator = Annotated[
    str | None,
    typer.Option(help="Of a CSV: a character, tab or space between columns; detected if left out."),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="Of a CSV: the decimal sign, . or , (point, comma); detected if left out."),
]
Encoding = Annotated[
    str | None, typer.Option(help="Of a CSV: its encoding, as in utf-16 or latin-1; detected if left out.")
]
Column = Annotated[str | None, typer.Option(help="Column that holds the scores.")]
Target = Annotated[
    str | None, typer.Option(help="Instead of scores: column with the truth; the plan fixes the score.")
]
Prediction = Annotated[list[str] | None, typer.Option(help="With --target: columns of the prediction.")]

# What the library calls its arguments where an option has another name.
_ARGUMENTS = {
    "n_sites": "sites",
    "n_points": "points",
    "keys": "key",
    "groups": "group",
    "local_ranks": "paper",
}
_ANYWHERE = r"(?<![\w'\"./-])", r"(?![\w'\"=./-])"
_AS_SUBJECT = r"\A", r"(?=(?:\[\d+\])? (?:must|does|goes|is|are|was|needs|and|cannot) )"
_BOTH_WAYS = re.compile(r"\w+=\w+ \((--[^)]+)\)")


def options_by_argument(params: Iterable[Any]) -> dict[str, str]:
    """Return options by the name of the argument that they become."""
    named = {str(param.name): max(param.opts, key=len) for param in params if param.opts[0].startswith("-")}
    return named | {argument: named[name] for argument, name in _ARGUMENTS.items() if name in named}


def in_options(message: str, options: dict[str, str]) -> str:
    """Translate a message of the library into the words of the command line.

    Names with an underscore are replaced wherever they stand, others only as the subject of a sentence.

    Parameters
    ----------
    message : str
        As the library wrote it.
    options : dict
        Options by the name of the argument.

    Returns
    -------
    str

    Examples
    --------
    >>> in_options("n_sites must be >= 1, got 0", {"n_sites": "--sites"})
    '--sites must be >= 1, got 0'
    >>> in_options("max_missing=1 (--max-missing 1) plans for that", {})
    '--max-missing 1 plans for that'
    """
    text = _BOTH_WAYS.sub(r"\1", message)
    for name, option in options.items():
        where, follows = _ANYWHERE if "_" in name else _AS_SUBJECT
        text = re.sub(f"{where}{re.escape(name)}{follows}", option, text)
    return text
