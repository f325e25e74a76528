"""The desk: a folder with the documents of one calibration, from its plan to later checks, as a page."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from fedconformal._files import write_text
from fedconformal.audit import verify
from fedconformal.documents import (
    Calibration,
    Check,
    Curve,
    Document,
    DocumentError,
    Facts,
    Plan,
    Ranks,
    Refusal,
    Report,
    read_period,
)
from fedconformal.monitoring._check import assess
from fedconformal.pages._certificate import CertificateView, certificate, judge_checks, promise_sentences
from fedconformal.pages._planner import make_plan
from fedconformal.pages._question import PlanQuestion, StrictModel
from fedconformal.pages._render import render
from fedconformal.protocol import calibrate as combine
from fedconformal.protocol._calibrate import validate_reports
from fedconformal.rounds import PLAN_FILE, list_json
from fedconformal.rounds._folder import file_name

_CALIBRATION, _CERTIFICATE = "calibration.json", "certificate.html"
_REPORTS, _CHECKS = "reports", "checks"

_ON_PAGE = ("absolute", "normalized", "cqr", "lac")  # scores that the answer page computes

FILES = {PLAN_FILE: "application/json", _CALIBRATION: "application/json", _CERTIFICATE: "text/html"}
"""Files of the folder that the page links to, and their types."""


class Desk:
    """Documents of a folder, as the page shows them.

    ``fedconformal calibrate plan.json reports`` and ``compare calibration.json checks`` read the same files;
    what was put there by hand counts too.

    Parameters
    ----------
    folder : Path
        With a ``plan.json``.

    Raises
    ------
    ValueError
        If the plan or the calibration cannot be read, or do not belong together.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.plan = folder, Plan.read(folder / PLAN_FILE)
        reports, self.unreadable = _read_all(Report, folder / _REPORTS)
        self.arrived = {report.digest: when for report, when in reports}
        self.intake = validate_reports(
            self.plan, [report for report, _ in reports], unreadable=self.unreadable
        )
        path = folder / _CALIBRATION
        self.calibration = Calibration.read(path) if path.exists() else None
        if self.calibration is not None and self.calibration.plan.digest != self.plan.digest:
            raise ValueError(f"{path} is of another plan than {PLAN_FILE}: move one of them away")

    @property
    def promises(self) -> list[tuple[float, str]]:
        """Each level with its promise, empty where no threshold is finite."""
        return promise_sentences(self.plan, self.plan.designs)

    @property
    def needs_command(self) -> bool:
        """True if the answer page refuses the plan: noise, signatures, draws and losses need the command."""
        for design in self.plan.designs:
            message = design.message
            if not isinstance(message, Ranks | Curve):
                return True
            rules = [level.rule for level in message.levels] if isinstance(message, Ranks) else []
            extra = any(getattr(message, name, None) for name in ("epsilon", "parts", "starts"))
            if extra or any(rule is not None and rule.eta is not None for rule in rules):
                return True
        score = None if self.plan.score is None else self.plan.score.name
        return self.plan.keys is not None or score not in (None, *_ON_PAGE)

    @property
    def rows(self) -> list[list[str]]:
        """Sites whose report counts, their cases, and when its file was written."""
        return [
            [report.site, f"{report.n:,}", f"{self.arrived[report.digest]:%Y-%m-%d %H:%M}"]
            for report in self.intake.reports
        ]

    @property
    def missing(self) -> list[str]:
        """Names of the sites that are asked and of which no report counts, where the plan has names."""
        asked = {name for design in self.plan.designs for name in design.asked_names or ()}
        return sorted(asked - {report.site for report in self.intake.reports})

    @property
    def n_missing(self) -> int:
        """Number of sites that are asked and of which no report counts; 0 where anybody may answer."""
        most = max(design.n_asked or 0 for design in self.plan.designs)
        return len(self.missing) or max(0, most - len(self.intake.reports))

    @property
    def is_current(self) -> bool:
        """True if the calibration is of exactly the reports that count now."""
        counted = () if self.calibration is None else self.calibration.reports
        return {it.report for it in counted} == {report.digest for report in self.intake.reports}

    @property
    def has_certificate(self) -> bool:
        """True if there is a certificate."""
        return (self.folder / _CERTIFICATE).exists()

    @cached_property
    def checks(self) -> tuple[list[Check], list[Refusal]]:
        """Checks on later cases, and a refusal for every other file; one for all where they do not fit."""
        read, refused = _read_all(Check, self.folder / _CHECKS)
        checks = [check for check, _ in read]
        try:
            if self.calibration is not None:
                judge_checks(self.calibration, checks)
        except ValueError as error:
            return [], [*refused, Refusal(source=_CHECKS, reason=str(error))]
        return checks, refused

    @cached_property
    def view(self) -> CertificateView:
        """Values of the calibration, verified with the reports where it is of these."""
        assert self.calibration is not None
        findings = verify(self.calibration, self.intake.reports if self.is_current else None)
        assessment, watched = judge_checks(self.calibration, self.checks[0])
        return CertificateView(self.calibration, findings, Facts(), assessment, None, watched)

    def certify(self, calibration: Calibration, checks: list[Check]) -> str:
        """Return the certificate, with today's date unless the plan has one."""
        stated = (calibration.plan.terms.facts or Facts()).given
        date = {} if "date" in stated else {"date": datetime.now(UTC).date().isoformat()}
        return certificate(calibration, checks=checks, facts=date)


Read = TypeVar("Read", bound=Document)


def _read_all(kind: type[Read], folder: Path) -> tuple[list[tuple[Read, datetime]], list[Refusal]]:
    """Read the documents of a folder, each with the time of its file; a refusal for every other file."""
    read, refused = [], []
    paths = list_json(folder) if folder.is_dir() else ()
    for path in paths:
        try:
            read.append((kind.read(path), datetime.fromtimestamp(path.stat().st_mtime).astimezone()))
        except (DocumentError, OSError) as error:
            reason = str(error).removeprefix(f"{path}: ")
            refused.append(Refusal(source=path.name[:200], reason=reason))
    return read, refused


# -- what the page asks for: each takes the folder and the body of a request, and returns what is shown -----


class Order(StrictModel):
    """Order of a button: ``replace`` if its words say that files that are there are replaced."""

    replace: bool = False


def show(folder: Path, body: bytes = b"") -> str:
    """Return the page of a folder."""
    return render("_desk.html", desk=Desk(folder))


def save(folder: Path, body: bytes) -> str:
    """Write the plan that answers a question."""
    plan = make_plan(PlanQuestion.model_validate_json(body))
    _write(folder / PLAN_FILE, plan.to_json() + "\n")
    return ""


def receive(folder: Path, body: bytes) -> str:
    """Write the report or check that was dropped; of a report that does not count the page says why."""
    try:
        report = Report.from_json(body)
    except DocumentError as error:
        if "this is a check" not in str(error):
            raise
        check = Check.from_json(body)
        if not (folder / _CALIBRATION).exists():
            raise ValueError(f"{check.site}: this is a check, and there is no {_CALIBRATION} yet") from None
        assess(Calibration.read(folder / _CALIBRATION), [check])
        _keep(folder / _CHECKS, check, lambda other: _overlap(check.period, other.period))
    else:
        plan = Plan.read(folder / PLAN_FILE)
        _keep(folder / _REPORTS, report, lambda other: bool(validate_reports(plan, [other]).reports))
    return ""


def _overlap(one: str | None, other: str | None) -> bool:
    """Return whether two periods have a day in common; one of them without a period has all days."""
    if one is None or other is None:
        return True
    (first, last), (begin, end) = read_period(one), read_period(other)
    return first <= end and begin <= last


Kept = TypeVar("Kept", Report, Check)


def _keep(folder: Path, document: Kept, counts: Callable[[Kept], bool]) -> None:
    """Write a document under a name of ours, unless another one of its site counts already."""
    text = document.to_json() + "\n"
    path = folder / file_name(document.kind, document.site, text)
    read, _ = _read_all(type(document), folder)
    others = [other for other, _ in read if other.site == document.site and other != document]
    if counts(document) and any(map(counts, others)):
        raise ValueError(
            f"{document.site}: another {document.kind} is in {folder}; move it away to take this"
        )
    if not path.exists():
        _write(path, text)


def calibrate(folder: Path, body: bytes) -> str:
    """Write the calibration of the reports that count, and its certificate."""
    desk, order = Desk(folder), Order.model_validate_json(body)
    calibration = combine(desk.plan, desk.intake.reports, on_refused="skip", unreadable=desk.intake.refused)
    page = desk.certify(calibration, [])
    _write(folder / _CALIBRATION, calibration.to_json() + "\n", replace=order.replace)
    _write(folder / _CERTIFICATE, page, replace=order.replace)
    return show(folder)


def certify(folder: Path, body: bytes) -> str:
    """Write the certificate of the calibration, with the checks that have come."""
    desk, order = Desk(folder), Order.model_validate_json(body)
    if desk.calibration is None:
        raise ValueError(f"{_CALIBRATION} is missing: calibrate first")
    _write(folder / _CERTIFICATE, desk.certify(desk.calibration, desk.checks[0]), replace=order.replace)
    return show(folder)


def _write(path: Path, text: str, *, replace: bool = False) -> None:
    """Write a file, and its folder if need be; what is there stays there unless it may be replaced."""
    if path.exists() and not replace:
        raise ValueError(f"{path} is there already: move it away to write another one")
    if path.parent.is_symlink() or path.is_symlink():
        raise ValueError(f"{path} must lie in the folder itself, not behind a link")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{path.parent}: {error.strerror or error}") from None
    write_text(path, text, force=replace)


DESK: dict[str, Callable[[Path, bytes], str]] = {
    "desk": show,
    **{function.__name__: function for function in (save, receive, calibrate, certify)},
}
"""Answers by the end of their address."""
