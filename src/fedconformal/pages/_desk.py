"""The desk: a folder with the documents of one calibration, from its plan to later
checks, as a page.
"""

from collections.abc import Callable, Sequence
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
)
from fedconformal.monitoring._answer import add_up_checks
from fedconformal.monitoring._check import refuse_misfits
from fedconformal.monitoring._watch import find_overlaps
from fedconformal.pages._certificate import (
    CertificateView,
    certificate,
    promise_sentences,
)
from fedconformal.pages._planner import make_plan
from fedconformal.pages._question import PlanQuestion, StrictModel
from fedconformal.pages._render import render
from fedconformal.protocol import calibrate as combine
from fedconformal.protocol._calibrate import validate_reports
from fedconformal.rounds import PLAN_FILE, list_json
from fedconformal.rounds._folder import file_name

_CALIBRATION, _CERTIFICATE = "calibration.json", "certificate.html"
_REPORTS, _CHECKS = "reports", "checks"

_ON_PAGE = (
    "absolute",
    "normalized",
    "cqr",
    "lac",
)  # scores that the answer page computes

FILES = {
    PLAN_FILE: "application/json",
    _CALIBRATION: "application/json",
    _CERTIFICATE: "text/html",
}
"""Files of the folder that the page links to, and their types."""


class Desk:
    """Documents of a folder, as the page shows them.

    ``fedconformal calibrate plan.json reports`` and ``compare calibration.json checks``
    read the same files; what was put there by hand counts too.

    Parameters
    ----------
    folder : Path
        With a ``plan.json``.

    Attributes
    ----------
    promises : list of tuple
        Each level with its promise, empty where no threshold is finite.
    missing : list of str
        Names of the sites that are asked and of which no report counts, where the plan
        has names.
    n_missing : int
        Their number; 0 where anybody may answer.
    is_current : bool
        True if the calibration is of exactly the reports that count now.

    Raises
    ------
    ValueError
        If the plan or the calibration cannot be read, or do not belong together.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.plan = folder, Plan.read(folder / PLAN_FILE)
        reports, unreadable = _read_all(Report, folder / _REPORTS)
        self.arrived = {report.digest: _written(path) for report, path in reports}
        self.intake = validate_reports(
            self.plan, [report for report, _ in reports], unreadable=unreadable
        )
        path = folder / _CALIBRATION
        self.calibration = Calibration.read(path) if path.exists() else None
        if (
            self.calibration is not None
            and self.calibration.plan.digest != self.plan.digest
        ):
            raise ValueError(
                f"{path} is of another plan than {PLAN_FILE}: move one of them away"
            )
        self.promises = promise_sentences(self.plan, self.plan.designs)
        asked = {
            name for design in self.plan.designs for name in design.asked_names or ()
        }
        self.missing = sorted(asked - {report.site for report in self.intake.reports})
        most = max(design.n_asked or 0 for design in self.plan.designs)
        self.n_missing = len(self.missing) or max(0, most - len(self.intake.reports))
        counted = () if self.calibration is None else self.calibration.reports
        self.is_current = {it.report for it in counted} == {
            it.digest for it in self.intake.reports
        }

    @property
    def needs_command(self) -> bool:
        """True if the answer page refuses the plan: noise, signatures, draws and losses
        need the command.
        """
        for design in self.plan.designs:
            message = design.message
            if not isinstance(message, Ranks | Curve):
                return True
            rules = (
                [level.rule for level in message.levels]
                if isinstance(message, Ranks)
                else []
            )
            extra = any(
                getattr(message, name, None) for name in ("epsilon", "parts", "starts")
            )
            if extra or any(
                rule is not None and rule.eta is not None for rule in rules
            ):
                return True
        score = None if self.plan.score is None else self.plan.score.name
        return self.plan.keys is not None or score not in (None, *_ON_PAGE)

    @cached_property
    def checks(self) -> tuple[list[Check], list[Refusal]]:
        """Checks on later cases in the order of their arrival, and a refusal for every
        other file.
        """
        read, refused = _read_all(Check, self.folder / _CHECKS)
        checks: list[Check] = []
        for check, path in sorted(read, key=lambda each: _written(each[1])):
            try:
                self.refuse_conflict(check, checks)
            except ValueError as error:
                refused.append(Refusal(source=path.name[:200], reason=str(error)))
            else:
                checks.append(check)
        for period in {check.period for check in checks if check.masked is not None}:
            own = [check for check in checks if check.period == period]
            try:
                add_up_checks(self._published, own)
            except ValueError as error:  # until all sites have sent theirs
                refused.append(
                    Refusal(
                        source=f"masked checks {period or ''}".rstrip(),
                        reason=str(error),
                    )
                )
                checks = [check for check in checks if check.period != period]
        return checks, refused

    @property
    def _published(self) -> Calibration:
        assert self.calibration is not None
        return self.calibration

    def refuse_conflict(self, check: Check, others: list[Check]) -> None:
        """Refuse a check that cannot be assessed together with others."""
        if others and (check.masked is None) != (others[0].masked is None):
            raise ValueError(
                f"{check.site}: masked and other checks cannot be assessed together"
            )
        if others and (check.period is None) != (others[0].period is None):
            has = "no" if check.period is None else "a"
            raise ValueError(
                f"{check.site}: has {has} period, unlike the checks before it"
            )
        own = [other for other in others if other.site == check.site]
        if own and check.period is None:
            raise ValueError(
                f"{check.site}: another check is in {self.folder / _CHECKS}; move it"
                " away to take this"
            )
        overlaps = find_overlaps([*own, check]) if own else []
        if check.masked is not None:  # which is read with those of all sites
            if overlaps:
                raise ValueError(overlaps[0])
            return
        try:
            refuse_misfits(self._published, [check], overlaps)
        except ValueError as error:
            raise ValueError(
                f"{check.site}: {str(error).rpartition(f'{check.site}: ')[2]}"
            ) from None

    @property
    def certified(self) -> datetime | None:
        """Time at which the certificate was written, if there is one."""
        path = self.folder / _CERTIFICATE
        return _written(path) if path.exists() else None

    @property
    def last_check(self) -> datetime:
        """Time at which the last check came."""
        return max(map(_written, list_json(self.folder / _CHECKS)))

    @property
    def current_reports(self) -> Sequence[Report] | None:
        """Reports that the calibration was made from; None where others count now."""
        return self.intake.reports if self.is_current else None

    @cached_property
    def view(self) -> CertificateView:
        """Values of the calibration, verified with the reports where it is of these."""
        findings = verify(self._published, self.current_reports)
        return CertificateView(self._published, findings, Facts(), self.checks[0])

    def certify(
        self,
        calibration: Calibration,
        checks: list[Check],
        reports: Sequence[Report] | None,
    ) -> str:
        """Return the certificate, with today's date unless the plan has one; verified
        with the reports where these are those of the calibration.
        """
        stated = (calibration.plan.terms.facts or Facts()).given
        date = (
            {} if "date" in stated else {"date": datetime.now(UTC).date().isoformat()}
        )
        return certificate(calibration, reports=reports, checks=checks, facts=date)


Read = TypeVar("Read", bound=Document)


def _read_all(
    kind: type[Read], folder: Path
) -> tuple[list[tuple[Read, Path]], list[Refusal]]:
    """Read the documents of a folder, each with its file; a refusal for every other
    file.
    """
    read, refused = [], []
    paths = list_json(folder) if folder.is_dir() else ()
    for path in paths:
        try:
            read.append((kind.read(path), path))
        except (DocumentError, OSError) as error:
            reason = str(error).removeprefix(f"{path}: ")
            refused.append(Refusal(source=path.name[:200], reason=reason))
    return read, refused


def _written(path: Path) -> datetime:
    """Return the time at which a file was written."""
    return datetime.fromtimestamp(path.stat().st_mtime).astimezone()


# -- what the page asks for: each takes the folder and the body of a request, and return


class Order(StrictModel):
    """Order of a button: ``replace`` if its words say that files that are there are
    replaced.
    """

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
    """Write the report or check that was dropped; of a report that does not count the
    page says why.
    """
    try:
        report = Report.from_json(body)
    except DocumentError as error:
        if "this is a check" not in str(error):
            raise
        check, desk = Check.from_json(body), Desk(folder)
        if desk.calibration is None:
            raise ValueError(
                f"{check.site}: this is a check, and there is no {_CALIBRATION} yet"
            ) from None
        checks = desk.checks[0]
        if check not in checks:
            desk.refuse_conflict(check, checks)
        _keep(folder / _CHECKS, check)
    else:
        plan, others = (
            Plan.read(folder / PLAN_FILE),
            _read_all(Report, folder / _REPORTS)[0],
        )
        own = [
            other
            for other, _ in others
            if other.site == report.site and other != report
        ]
        if validate_reports(plan, [report]).reports and any(
            validate_reports(plan, [it]).reports for it in own
        ):
            path = folder / _REPORTS
            raise ValueError(
                f"{report.site}: another report is in {path}; move it away to take this"
            )
        _keep(folder / _REPORTS, report)
    return ""


def _keep(folder: Path, document: Report | Check) -> None:
    """Write a document under a name of ours, unless it is there already."""
    text = document.to_json() + "\n"
    path = folder / file_name(document.kind, document.site, text)
    if not path.exists():
        _write(path, text)


def calibrate(folder: Path, body: bytes) -> str:
    """Write the calibration of the reports that count, and its certificate."""
    desk, order = Desk(folder), Order.model_validate_json(body)
    calibration = combine(
        desk.plan,
        desk.intake.reports,
        on_refused="skip",
        unreadable=desk.intake.refused,
    )
    page = desk.certify(calibration, [], desk.intake.reports)
    _write(folder / _CALIBRATION, calibration.to_json() + "\n", replace=order.replace)
    _write(folder / _CERTIFICATE, page, replace=order.replace)
    return show(folder)


def certify(folder: Path, body: bytes) -> str:
    """Write the certificate of the calibration, with the checks that have come."""
    desk, order = Desk(folder), Order.model_validate_json(body)
    if desk.calibration is None:
        raise ValueError(f"{_CALIBRATION} is missing: calibrate first")
    _write(
        folder / _CERTIFICATE,
        desk.certify(desk.calibration, desk.checks[0], desk.current_reports),
        replace=order.replace,
    )
    return show(folder)


def _write(path: Path, text: str, *, replace: bool = False) -> None:
    """Write a file, and its folder if need be; what is there stays there unless it may
    be replaced.
    """
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
