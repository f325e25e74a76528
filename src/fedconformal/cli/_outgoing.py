"""What is about to leave a site: shown, confirmed, written."""

import sys
from pathlib import Path

from fedconformal._inputs import STANDARD
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
    """Say how much is about to leave, and show exactly what; ask a person who is there.

    Where nobody is asked the file is written first, so that nobody who stops reading loses it.
    """
    to_stdout, asking = as_json or output == STANDARD, _is_asking(ask)
    file = None if output == STANDARD else output
    if not asking and file is not None:
        write_text(file, content + "\n", force=force)
    if not to_stdout or file is not None:
        _show(content, sentence)
    if asking:
        confirm("Send it?", ask=ask)
        if file is not None:
            write_text(file, content + "\n", force=force)
    if file is not None:
        say(f"wrote {file}")
    if to_stdout:
        print(content)


def _show(content: str, sentence: str | None) -> None:
    if sentence is not None:
        say(sentence)
    say("This is everything that leaves the site:")
    say(content)


def _is_asking(ask: bool) -> bool:
    return ask and sys.stdin.isatty()


def confirm(question: str, *, ask: bool) -> None:
    """Ask a person who is there, and stop if the answer is no."""
    if _is_asking(ask):
        import typer

        typer.confirm(question, abort=True, err=True)
