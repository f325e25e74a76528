"""A calibration that somebody edited, digests and all, is refused on reading or fails the audit.

Every number, word and list of honest calibrations is changed, left out, doubled or reversed. Lists say what
takes more than the file: what only the reports show, and what makes no claim stronger.
"""

import copy
import json
from fractions import Fraction

import pytest
from honest import HONEST

import fedconformal as fc
from fedconformal.audit import verify
from fedconformal.documents import ratio_text

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.InfeasibleWarning")

NEEDS_REPORTS = (
    "parts.*.thresholds",  # reported values are not in the calibration
    "parts.*.design.levels.*.votes",  # where a site is missing, other votes may keep the promise too
    "reports.*.report",  # where nobody signs, a digest is any digest
    "plan.",  # another plan, whose digest the reports do not carry
)
OPEN = (*NEEDS_REPORTS, "parts.*.design.sites.*.n")  # another size may have the same ranks
HARMLESS = (
    "refused",  # a file that could not be read is not at hand, and a reason is in words
    "parts.*.refused",
    "parts.*.design.levels.*.advice",  # what would have sufficed is no claim about the coverage
)
FEW = ("stable", "signed, conditional, one missing", "curve", "cases")


def edits(value, path=()):
    """Yield (path, the value instead) for every change of one place."""
    if isinstance(value, dict):
        for name, inside in value.items():
            if name not in ("format", "version"):
                yield from ((where, {**value, name: new}) for where, new in edits(inside, (*path, name)))
            yield (*path, name), {key: each for key, each in value.items() if key != name}
    elif isinstance(value, list):
        for i, inside in enumerate(value):
            before, after = value[:i], value[i + 1 :]
            yield from ((where, [*before, new, *after]) for where, new in edits(inside, (*path, "*")))
            yield path, before + after
            yield path, [*before, inside, copy.deepcopy(inside), *after]
        yield path, value[::-1]
    else:
        yield from ((path, new) for new in others(value))


def others(value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value - 1, value + 1, 2 * value + 3]
    if isinstance(value, float):
        return [value / 2, value + 0.01]
    if value == "Infinity":
        return [1.0]
    words = [value[:-1] + ("0" if value[-1] != "0" else "1"), value + "x"]
    if value.replace("/", "").replace(".", "").isdigit():
        words += [ratio_text(Fraction(value) / 2), ratio_text((Fraction(value) + 1) / 2)]
    return words


def read(content):
    """Return the document of this content, with a digest that fits; None if it is refused."""
    try:
        edited = fc.Calibration.model_validate_json(json.dumps(content))
        edited.check()
    except ValueError:
        return None
    return edited


def is_as_good(edited):
    """Return whether the votes keep the promise at every level, by the package's own reckoning."""
    guarantees = [edited[level].guarantee for level in edited.plan.confidence_levels]
    delta = edited.plan.designs[0].delta
    return all(
        each.mean >= level if delta is None else each.probability >= 1 - delta
        for each, level in zip(guarantees, edited.plan.confidence_levels, strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FEW else pytest.mark.nightly) for name in HONEST]
)
def test_every_edit_is_found(name):
    calibration, reports = HONEST[name]()
    needs_reports, tried = OPEN if calibration.plan.is_open else NEEDS_REPORTS, set()
    for path, content in edits(calibration.content()):
        edited = read(content)
        where = ".".join(path)
        if edited is None or edited.digest in tried | {calibration.digest} or where.startswith(HARMLESS):
            continue
        tried.add(edited.digest)
        if any(finding.holds is False for finding in verify(edited)):
            continue
        assert where.startswith(needs_reports), (where, content)
        found = any(finding.holds is False for finding in verify(edited, reports))
        assert found or ("levels.*.votes" in where and is_as_good(edited)), (where, content)
    assert len(tried) > 20
