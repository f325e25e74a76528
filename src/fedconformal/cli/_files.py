"""Documents in files, and what leaves a site: shown, confirmed, written."""

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from os.path import realpath
from pathlib import Path
from typing import TypeVar

import typer

from fedconformal import rounds
from fedconformal._files import STANDARD, check_free, standard_input, write_text
from fedconformal.cli._show import say
from fedconformal.documents import Calibration, Document, DocumentError, Plan, Refusal, Report, SigningKey
from fedconformal.privacy import Ledger
from fedconformal.protocol import SitePolicy
from fedconformal.rounds._site import read_key as _read_key


def check_output(output: Path | None, *, force: bool) -> None:
    """Refuse an output that exists, before any work is done."""
    if output is not None and output != STANDARD:
        check_free(output, force=force)


def save(
    document: Document, output: Path | None, show: Callable[[], None], *, force: bool, as_json: bool
) -> None:
    """Write a result to its file, and then show it, to people or as JSON.

    The file comes first, so that nobody who stops reading loses it.
    """
    if output not in (None, STANDARD):
        write_text(output, document.to_json() + "\n", force=force)
    if as_json or output == STANDARD:
        print(document.to_json())
    else:
        show()
    if output not in (None, STANDARD):
        say(f"wrote {output}")


def deliver_text(text: str, output: Path, *, force: bool, mode: int = 0o644, note: str = "") -> None:
    """Write text to its file, and name the file."""
    if output == STANDARD:
        print(text, end="")
        return
    write_text(output, text, force=force, mode=mode)
    say(f"wrote {output}{note}")


Read = TypeVar("Read", bound=Document)


def read(kind: type[Read], path: Path, content: bytes | None = None) -> Read:
    """Read a document from its file, or from standard input."""
    if path != STANDARD:
        return kind.read(path)
    try:
        return kind.from_json(standard_input(kind.limit.largest + 1) if content is None else content)
    except DocumentError as error:
        raise DocumentError(f"standard input: {error}") from None


def read_plan_or_calibration(path: Path) -> Plan | Calibration:
    """Read one of both from a file, or from standard input."""
    content = standard_input(Calibration.limit.largest + 1) if path == STANDARD else None
    try:
        return read(Plan, path, content)
    except DocumentError as error:
        if "this is a calibration" not in str(error):
            raise
    return read(Calibration, path, content)


Authored = TypeVar("Authored", Plan, Calibration)


def signed(document: Authored, key: Path | None) -> Authored:
    """Return the document, signed if a key was given."""
    return document if key is None else read_key(key).sign(document)


def read_policy(path: Path | None) -> SitePolicy:
    """Read a site's policy from its file, or from standard input; the default one without."""
    if path is None:
        return SitePolicy()
    if path != STANDARD:
        return SitePolicy.read(path)
    return SitePolicy.from_toml(standard_input(SitePolicy.LONGEST + 1), name="standard input")


def model_of(path: Path | None) -> Path | str | None:
    """Return the file of a model, or the digest of standard input."""
    return path if path != STANDARD else f"sha256:{hashlib.sha256(standard_input()).hexdigest()}"


def open_ledger(path: Path) -> Ledger:
    """Open a site's ledger."""
    if path == STANDARD:
        raise ValueError("a ledger must be a file: it cannot be standard input")
    return Ledger(path)


def read_key(path: Path) -> SigningKey:
    """Read a private key from its file."""
    if path != STANDARD:
        return _read_key(path)
    return SigningKey.from_pem(standard_input(SigningKey.LONGEST + 1))


def expand(files: Iterable[Path]) -> Iterator[Path]:
    """Replace directories by the .json files in them."""
    last = None
    for path in files:
        for last in rounds.list_json(path) if path.is_dir() else [path]:
            yield last
    if last is None:
        raise ValueError("no .json files there")


def read_reports(files: Sequence[Path], plan_file: Path | None = None) -> tuple[list[Report], list[Refusal]]:
    """Read reports, but not the plan that is in the same directory; a refusal for every file that is none."""

    def is_plan(path: Path) -> bool:
        if plan_file is None:
            return path.name == rounds.PLAN_FILE
        return (path.name == plan_file.name or path.is_symlink()) and realpath(path) == realpath(plan_file)

    given = set(files)
    paths = (path for path in expand(files) if path in given or not is_plan(path))
    reports, unreadable = rounds.read_reports(path for path in paths if path != STANDARD)
    if STANDARD in given:
        try:
            reports.append(read(Report, STANDARD))
        except DocumentError as error:
            reason = str(error).removeprefix("standard input: ")
            unreadable.append(Refusal(source="standard input", reason=reason))
    return reports, unreadable


# -- what leaves a site -------------------------------------------------------------------------------------


def send_out(content: str, *, ask: bool, output: Path | None, force: bool, as_json: bool) -> None:
    """Show exactly what leaves, and ask a person who is there.

    Where nobody is asked the file is written first, so that nobody who stops reading loses it.
    """
    to_stdout, file = as_json or output == STANDARD, None if output == STANDARD else output
    asking = ask and sys.stdin.isatty()
    if not asking and file is not None:
        write_text(file, content + "\n", force=force)
    if not to_stdout or file is not None:
        say("This is everything that leaves the site:")
        say(content)
    if asking:
        confirm(file)
        if file is not None:
            write_text(file, content + "\n", force=force)
    if file is not None:
        say(f"wrote {file}")
    if to_stdout:
        print(content)


def confirm(output: Path | None) -> None:
    """Ask a person who is there, and stop if the answer is no."""
    if sys.stdin.isatty():
        question = "Send it?" if output in (None, STANDARD) else f"Write {output}?"
        typer.confirm(question, abort=True, err=True)
