"""What is about to leave a site: shown, confirmed, written."""

import sys
from pathlib import Path

from fedconformal._outputs import write_text
from fedconformal.cli._show import say


def send_out(
    content: str,
    sentence: str | None = None,
    *,
    ask: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Say how much is about to leave, and show exactly what; ask a person who is there."""
    if not as_json or output is not None:
        if sentence is not None:
            say(sentence)
        say("This is everything that leaves the site:")
        say(content)
    confirm("Send it?", ask=ask)
    if output is not None:
        write_text(output, content + "\n", force=force)
        say(f"wrote {output}")
    if as_json:
        print(content)


def confirm(question: str, *, ask: bool) -> None:
    """Ask a person who is there, and stop if the answer is no."""
    if ask and sys.stdin.isatty():
        import typer

        typer.confirm(question, abort=True, err=True)
