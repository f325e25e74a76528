"""Documents in files, and what leaves a site: shown, confirmed, written."""

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os.path import realpath
from pathlib import Path
from typing import TypeVar

import typer

from fedconformal import rounds
from fedconformal._files import STANDARD, check_free, standard_input, write_text
from fedconformal.cli._show import say, working
from fedconformal.documents import (
    Calibration,
    Document,
    DocumentError,
    Plan,
    Refusal,
    Report,
    SigningKey,
)
from fedconformal.privacy import Ledger
from fedconformal.protocol import SitePolicy


@dataclass(frozen=True)
class Output:
    """Options for the file that a command writes."""

    output: Path | None = None
    force: bool = False
    json: bool = False

    @property
    def file(self) -> Path | None:
        """The file; None if the result is printed alone."""
        return None if self.output == STANDARD else self.output

    def check(self) -> None:
        """Refuse a file that exists, before any work is done."""
        if self.file is not None:
            check_free(self.file, force=self.force)

    def write(self, text: str, *, mode: int = 0o644, note: str = "") -> None:
        """Write text to the file, and name it; or print it."""
        if self.file is None:
            print(text, end="")
        else:
            write_text(self.file, text, force=self.force, mode=mode)
            say(f"wrote {self.file}{note}")

    def save(self, document: Document, show: Callable[[], None]) -> None:
        """Write a result to its file, and then show it, to people or as JSON.

        The file comes first, so that nobody who stops reading loses it.
        """
        text = document.to_json() + "\n"
        if self.file is not None:
            write_text(self.file, text, force=self.force)
        if self.json or self.output == STANDARD:
            print(text, end="")
        else:
            show()
        if self.file is not None:
            say(f"wrote {self.file}")

    def send(
        self,
        prepared: str,
        make: Callable[[], Document],
        *,
        ask: bool,
        is_recorded: bool,
    ) -> None:
        """Show exactly what leaves the site, and ask a person who is there.

        Parameters
        ----------
        prepared : str
            Sentence that says what would leave.
        make : callable
            Makes the answer.
        ask : bool
            Whether to ask.
        is_recorded : bool
            True if the answer is charged or recorded: it is asked for before that, and
            else when it is shown.
        """
        say(prepared)
        if ask and is_recorded:
            self._confirm()
        with working("preparing the answer"):
            text = make().to_json() + "\n"
        to_stdout = self.json or self.output == STANDARD
        if not to_stdout or self.file is not None:
            say(f"This is everything that leaves the site:\n{text[:-1]}")
        if ask and not is_recorded:
            self._confirm()
        if self.file is not None:
            self.write(text)
        if to_stdout:
            print(text, end="")

    def _confirm(self) -> None:
        """Ask a person who is there, and stop if the answer is no."""
        if sys.stdin.isatty():
            question = "Send it?" if self.file is None else f"Write {self.file}?"
            typer.confirm(question, abort=True, err=True)


@dataclass(frozen=True)
class SiteFiles:
    """Options for what a site keeps."""

    sign_with: Path | None = None
    ledger: Path | None = None
    dataset: str | None = None
    policy: Path | None = None

    def open(self, name: str) -> rounds.Site:
        """Return the site that answers."""
        policy = read_policy(self.policy)
        key = None if self.sign_with is None else read_key(self.sign_with)
        ledger = None if self.ledger is None else open_ledger(self.ledger)
        return rounds.Site(name, key, ledger, self.dataset, policy)


Read = TypeVar("Read", bound=Document)


def read(kind: type[Read], path: Path, content: bytes | None = None) -> Read:
    """Read a document from its file, or from standard input."""
    if path != STANDARD:
        return kind.read(path)
    try:
        return kind.from_json(
            standard_input(kind.limit.largest + 1) if content is None else content
        )
    except DocumentError as error:
        raise DocumentError(f"standard input: {error}") from None


def read_plan_or_calibration(path: Path) -> Plan | Calibration:
    """Read one of both from a file, or from standard input."""
    content = (
        standard_input(Calibration.limit.largest + 1) if path == STANDARD else None
    )
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
    """Read a site's policy from its file, or from standard input; the default one
    without.
    """
    if path is None:
        return SitePolicy()
    if path != STANDARD:
        return SitePolicy.read(path)
    return SitePolicy.from_toml(
        standard_input(SitePolicy.LONGEST + 1), name="standard input"
    )


def model_of(path: Path | None) -> Path | str | None:
    """Return the file of a model, or the digest of standard input."""
    return (
        path
        if path != STANDARD
        else f"sha256:{hashlib.sha256(standard_input()).hexdigest()}"
    )


def open_ledger(path: Path) -> Ledger:
    """Open a site's ledger."""
    if path == STANDARD:
        raise ValueError("a ledger must be a file: it cannot be standard input")
    return Ledger(path)


def read_key(path: Path) -> SigningKey:
    """Read a private key from its file."""
    if path != STANDARD:
        return SigningKey.read(path)
    return SigningKey.from_pem(standard_input(SigningKey.LONGEST + 1))


def expand(files: Iterable[Path]) -> Iterator[Path]:
    """Replace directories by the .json files in them."""
    last = None
    for path in files:
        for last in rounds.list_json(path) if path.is_dir() else [path]:
            yield last
    if last is None:
        raise ValueError("no .json files there")


def refuse_unreadable(refusals: Sequence[Refusal]) -> None:
    """Refuse files that are no reports, all of them by name."""
    if refusals:
        raise ValueError(
            "; ".join(f"{refusal.source}: {refusal.reason}" for refusal in refusals)
        )


def read_reports(
    files: Sequence[Path], plan_file: Path | None = None
) -> tuple[list[Report], list[Refusal]]:
    """Read reports, but not the plan that is in the same directory; a refusal for every
    file that is none.
    """

    def is_plan(path: Path) -> bool:
        if plan_file is None:
            return path.name == rounds.PLAN_FILE
        return (path.name == plan_file.name or path.is_symlink()) and realpath(
            path
        ) == realpath(plan_file)

    given = set(files)
    paths = (path for path in expand(files) if path in given or not is_plan(path))
    reports, unreadable = rounds.read_reports(
        path for path in paths if path != STANDARD
    )
    if STANDARD in given:
        try:
            reports.append(read(Report, STANDARD))
        except DocumentError as error:
            reason = str(error).removeprefix("standard input: ")
            unreadable.append(Refusal(source="standard input", reason=reason))
    return reports, unreadable
