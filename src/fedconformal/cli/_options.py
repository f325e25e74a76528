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
