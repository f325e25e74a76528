"""What a coordinator does with files: calibrate, verify."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from fedconformal import audit, server
from fedconformal.cli._show import print_json, table, working
from fedconformal.documents import Calibration, DocumentError, Plan, Refusal, Report
from fedconformal.server import AnyReport


def calibrate(plan_file: Path, files: list[Path], *, skip_refused: bool, histogram: bool) -> Calibration:
    """Read the plan and the reports; what cannot be read is refused like any other."""
    plan = Plan.read(plan_file)
    paths = report_files(files, plan_file)
    if histogram:
        return server.calibrate_histogram(plan, _summed(plan, paths))
    reports, unreadable = read_reports(paths, Report)
    return server.calibrate(
        plan, reports, on_refused="skip" if skip_refused else "raise", unreadable=unreadable
    )


def report_files(files: list[Path], plan_file: Path) -> list[Path]:
    """The files, without the plan where it lies in the same directory."""
    return [path for path in expand(files) if path in files or path.resolve() != plan_file.resolve()]


def expand(files: Iterable[Path]) -> list[Path]:
    """Directories stand for the .json files in them."""
    paths: list[Path] = []
    for path in files:
        paths += sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not paths:
        raise ValueError("no .json files there")
    return paths


def read_reports(paths: list[Path], kind: type[AnyReport]) -> tuple[list[AnyReport], list[Refusal]]:
    """Reports, and a refusal for every file that is none."""
    reports, unreadable = [], []
    for path in paths:
        try:
            reports.append(kind.read(path))
        except DocumentError as error:
            reason = str(error).removeprefix(f"{path}: ")
            unreadable.append(Refusal(source=str(path), reason=reason))
    return reports, unreadable


def _summed(plan: Plan, paths: list[Path]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The sum of one-hot vectors in files, each for this plan."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise ValueError("the same file twice: every site's vector counts once")
    shape = (len(plan.levels), len(plan.privacy.edges)) if plan.privacy is not None else (0, 0)
    total = np.zeros(shape, dtype=np.int64)
    for path in paths:
        try:
            content = json.loads(path.read_bytes())
            vectors = np.array(content["one_hot"])
            if content["plan"] != plan.digest:
                raise ValueError("answers another plan")
            if vectors.dtype.kind not in "iu" or vectors.shape != shape or (vectors < 0).any():
                raise ValueError(f"counts >= 0 of shape {shape} are needed")
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            reason = str(error).splitlines()[0][:200]
            raise ValueError(f"{path}: not a one-hot vector for this plan: {reason}") from None
        total += vectors
    return total


def verify(path: Path, reports: list[Path], *, as_json: bool) -> bool:
    """Run every check, show them, and say whether all hold."""
    calibration = Calibration.read(path)
    given = given_reports(reports, Report)
    with working("recounting"):
        checks = audit.verify(calibration, given)
    return show_checks(checks, can_do_more=given is None and bool(calibration.answers), as_json=as_json)


def given_reports(files: list[Path] | None, kind: type[AnyReport]) -> list[AnyReport] | None:
    """The reports that an auditor has, if any; one that cannot be read is an error."""
    if not files:
        return None
    given, unreadable = read_reports(expand(files), kind)
    if unreadable:
        raise ValueError("; ".join(f"{refusal.source}: {refusal.reason}" for refusal in unreadable))
    return given


def show_checks(checks: Sequence[audit.Check], *, can_do_more: bool, as_json: bool) -> bool:
    """Show every check, and say whether all hold."""
    passed = all(item.passed for item in checks)
    if as_json:
        print_json({"verified": passed, "checks": [item.as_dict() for item in checks]})
        return passed
    table(
        ["check", "found", "holds"],
        [[item.name, item.found, "yes" if item.passed else "NO"] for item in checks],
    )
    if can_do_more:
        print("The threshold itself can be checked with the reports: --reports FILE, once for each.")
    print("verified" if passed else "not verified")
    return passed
