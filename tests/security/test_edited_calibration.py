"""A calibration that somebody edited, digests and all, fails ``verify``.

Three lists say what takes more than the file: what only the reports show, and what nothing shows but the
coordinator's signature. Every other edit is found in the file alone.
"""

import copy
import json

import numpy as np
import pytest
from pydantic import ValidationError
from sending import federation

import fedconformal as fc
from fedconformal.audit import verify

SIZES = {"A": 40, "B": 60, "C": 25, "D": 90, "E": 60}
KEYS = {site: fc.SigningKey.new() for site in SIZES}
PUBLIC = {site: key.public_key for site, key in KEYS.items()}
COORDINATOR = fc.SigningKey.new()

NEEDS_REPORTS = {
    "parts.*.levels.*.threshold",  # reported values are not in the calibration
    "reports.*.report",  # where nobody signs, a digest is any digest
    "plan.",  # another plan, whose digest the reports do not carry
}
"""Edits that only the sites' reports show."""

NEEDS_SIGNATURE = {
    "refused",  # a file that could not be read is not at hand, and a reason is in words
    "parts.*.refused",
}
"""Edits that nothing shows but the coordinator's signature."""


def failed(findings):
    return [finding.claim for finding in findings if finding.holds is False]


def read(content):
    """A document of this content, with a digest that fits; None if it is refused."""
    try:
        return fc.Calibration.model_validate_json(json.dumps(content))
    except ValidationError:
        return None


def signed(plan, sizes, keys=KEYS):
    return [keys[report.site].sign(report) for report in federation(plan, sizes)]


# -- honest calibrations -----------------------------------------------------------------------------------


def one_missing():
    plan = fc.plan(n_points=SIZES)
    stray = fc.report(fc.plan(1, 40), np.arange(40.0), site="E")
    reports = federation(plan, SIZES)[:4]
    return fc.calibrate(plan, [*reports, stray], on_refused="skip"), reports


def all_there():
    plan = fc.plan(n_points=SIZES, confidence_level=[0.8, 0.9], numbers=2, criterion="marginal")
    reports = federation(plan, SIZES)
    return fc.calibrate(plan, reports), reports


def with_keys():
    plan = fc.plan(n_points=SIZES, keys=PUBLIC, criterion="conditional", delta=0.3, confidence_level=0.8)
    reports = signed(plan, SIZES)[1:]
    return fc.calibrate(plan, reports), reports


def not_named():
    plan = fc.plan(n_sites=5, n_points=60, max_faulty=1, confidence_level=0.8)
    reports = federation(plan, dict.fromkeys("ABCD", 60))
    return fc.calibrate(plan, reports), reports


def of_open_plan():
    plan = fc.plan(confidence_level=0.8, n_sites=7, criterion="marginal")
    reports = federation(plan, SIZES)
    return fc.calibrate(plan, reports), reports


def each_site():
    plan = fc.plan(n_points=SIZES, promise="each-site", confidence_level=0.8)
    reports = federation(plan, SIZES)[1:]
    return fc.calibrate(plan, reports), reports


def with_groups():
    sizes = {"a": {"A": 40, "B": 40, "C": 40}, "b": {"A": 40, "B": 40}, "c": {"C": 30}}
    keys = {site: KEYS[site] for site in "ABC"}
    plan = fc.plan(
        groups=sizes, confidence_level=0.8, keys={site: key.public_key for site, key in keys.items()}
    )
    rng, reports = np.random.default_rng(1), []
    for site, key in list(keys.items())[:2]:
        labels = [label for label in "ab" for _ in range(sizes[label].get(site, 0))]
        reports.append(fc.report(plan, rng.random(len(labels)), site=site, groups=labels, key=key))
    return fc.calibrate(plan, reports), reports


def summed():
    privacy = fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 30))
    plan = fc.plan(n_sites=6, n_points=300, privacy=privacy)
    return fc.calibrate_histogram(plan, 5 * np.eye(30, dtype=int)[27]), None


def endless():
    plan = fc.plan(n_points={"A": 3, "B": 4}, on_infeasible="ignore")
    reports = federation(plan, {"A": 3, "B": 4})
    return fc.calibrate(plan, reports), reports


HONEST = (
    one_missing,
    all_there,
    with_keys,
    not_named,
    of_open_plan,
    each_site,
    with_groups,
    summed,
    endless,
)


@pytest.fixture(scope="module", params=HONEST, ids=lambda case: case.__name__)
def case(request):
    return request.param()


def test_what_nobody_edited_is_verified(case):
    calibration, reports = case
    for each in (calibration, COORDINATOR.sign(calibration)):
        again = fc.Calibration.from_json(each.to_json())
        assert all(finding.holds for finding in verify(again))
        if reports is not None:
            assert all(finding.holds for finding in verify(again, reports))
    assert failed(verify(calibration, signers=[COORDINATOR.public_key])) == [
        f"the calibration is signed with {COORDINATOR.public_key}"
    ]


# -- a sweep over all fields -------------------------------------------------------------------------------


def edits(value, path=()):
    """Every number and word changed, every entry left out or doubled: (path, the value instead)."""
    if isinstance(value, dict):
        for name, inside in value.items():
            if name not in ("format", "version"):
                yield from ((where, {**value, name: new}) for where, new in edits(inside, (*path, name)))
            yield (*path, name), {key: each for key, each in value.items() if key != name}
    elif isinstance(value, list):
        for i, inside in enumerate(value):
            yield from (
                (where, [*value[:i], new, *value[i + 1 :]]) for where, new in edits(inside, (*path, "*"))
            )
            yield path, [*value[:i], *value[i + 1 :]]
            yield path, [*value[: i + 1], copy.deepcopy(inside), *value[i + 1 :]]
        yield path, value[::-1]
    else:
        yield from ((path, new) for new in _others(value))


def _others(value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value - 1, value + 1, 2 * value + 3]
    if isinstance(value, float):
        return [value / 2, value + 0.01]
    if value == "Infinity":
        return [1.0]
    return [value[:-1] + ("0" if value[-1] != "0" else "1"), value + "x"]


def matches(path, patterns):
    where = ".".join(path)
    return any(where.startswith(pattern) for pattern in patterns)


def test_every_edit_is_noticed(case):
    calibration, reports = case
    honest = COORDINATOR.sign(calibration)
    tried = 0
    for path, content in edits(calibration.content()):
        edited = read(content)
        if edited is None or edited.digest == calibration.digest:
            continue  # it is no calibration at all, or the same one
        tried += 1
        pretended = edited.model_copy(update={"signature": honest.signature, "signer": honest.signer})
        assert failed(verify(pretended)), path
        if matches(path, NEEDS_SIGNATURE):
            continue
        alone = failed(verify(edited))
        if not matches(path, NEEDS_REPORTS):
            assert alone, (path, content)
        elif reports is not None:
            assert failed(verify(edited, reports)), (path, content)
    assert tried > 20
