"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write the result.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

AnsweredPlan = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan that was answered.")]
Reports = Annotated[list[Path], typer.Argument(help="Report files, or directories of them.")]
GroupColumn = Annotated[
    str | None, typer.Option("--group", metavar="COLUMN", help="For groups: column with each case's group.")
]
OneLabel = Annotated[
    str | None, typer.Option("--label", metavar="LABEL", help="One group, where there are groups.")
]
Policy = Annotated[
    Path | None, typer.Option(help="Limits on what this site discloses, from `fedconformal policy new`.")
]
Model = Annotated[Path | None, typer.Option(help="File of the model, whose digest the plan holds.")]
FactOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fact",
        metavar="NAME=TEXT",
        help="For the certificate: name, version, purpose, population, period, unit, coordinator, contact, "
        "check_again, date. Repeatable.",
    ),
]
Sign = Annotated[Path | None, typer.Option("--sign", help="Private key of the coordinator, who signs it.")]
OneLevel = Annotated[float | None, typer.Option(help="One of the plan's levels.")]

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
ScoreOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="A parameter of the score, as in penalty=0.01; may be repeated."),
]
