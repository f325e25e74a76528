"""What commands share: options, and where results go."""

from pathlib import Path
from typing import Annotated

import typer

from fedconformal._outputs import check_free, write_text
from fedconformal.cli._show import print_json, say
from fedconformal.documents import Document

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write the result.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

Site = Annotated[str, typer.Option(help="This site's name.")]
Column = Annotated[str | None, typer.Option(help="Column that holds the scores.")]
Target = Annotated[
    str | None, typer.Option(help="Instead of scores: column with the truth; the plan fixes the score.")
]
Prediction = Annotated[list[str] | None, typer.Option(help="With --target: columns of the prediction.")]
SignWith = Annotated[Path | None, typer.Option(help="Private key of this site.")]
LedgerFile = Annotated[Path | None, typer.Option(help="For a private plan: this site's ledger.")]
DataSet = Annotated[
    str | None, typer.Option(help="For a private plan: what the data are called in the ledger.")
]

Reports = Annotated[list[Path], typer.Argument(help="Report files, or directories of them.")]
ReportsToo = Annotated[
    list[Path] | None, typer.Option(help="Report files or directories: checks the thresholds too.")
]
SkipRefused = Annotated[bool, typer.Option(help="Count refused reports as missing.")]
OneLevel = Annotated[float | None, typer.Option(help="One of the plan's levels.")]

Columns = Annotated[list[str] | None, typer.Option(help="Columns of the prediction; may be repeated.")]
Score = Annotated[str | None, typer.Option(help="The score, where the plan does not fix it.")]
Only = Annotated[bool, typer.Option(help="Leave out the other columns.")]


def save(content: Document, output: Path | None, *, force: bool, as_json: bool) -> None:
    """Write a result where it was asked for."""
    if output is not None:
        write_text(output, content.to_json() + "\n", force=force)
        say(f"wrote {output}")
    if as_json:
        print_json(content)


def check_output(output: Path | None, *, force: bool) -> None:
    """Refuse an output that exists, before any work is done."""
    if output is not None:
        check_free(output, force=force)
