"""A certificate is a function of the calibration alone: the speed of the machine, and
what else it has to do, change nothing.
"""

import ast
import time
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.documents import Facts
from fedconformal.pages import _claims, certificate
from fedconformal.pages._certificate import CertificateView

CLOCKS = ("thread_time", "process_time", "perf_counter", "monotonic", "time")
SIZES = {"A": 40, "B": 55, "C": 70, "D": 90, "E": 110}


@pytest.fixture(scope="module")
def many_groups():
    """A calibration of 30 groups at five sites of different sizes, with two levels."""
    labels = [f"group {i:02}" for i in range(30)]
    plan = fc.plan(groups=dict.fromkeys(labels, SIZES), confidence_level=[0.8, 0.9])
    rng = np.random.default_rng(0)
    policy = fc.SitePolicy.unlimited()
    reports = []
    for site, n in SIZES.items():
        scores, groups = rng.random(n * len(labels)), np.repeat(labels, n)
        report = fc.report(plan, scores, groups=groups, site=site, policy=policy)
        reports.append(report)
    return fc.calibrate(plan, reports)


def set_clocks(monkeypatch, factor):
    """Let all clocks run this many times as fast, as on a slower machine, where they
    are and where they were imported.
    """
    for name in CLOCKS:
        clock = faster(getattr(time, name), factor)
        monkeypatch.setattr(time, name, clock)
        monkeypatch.setattr(_claims, name, clock, raising=False)


def faster(clock, factor):
    start = clock()
    return lambda: start + factor * (clock() - start)


@pytest.mark.slow
def test_same_bytes_on_slower_and_faster_machines(many_groups, monkeypatch):
    page = certificate(many_groups)
    for factor in (40, 1 / 40):
        with monkeypatch.context() as patched:
            set_clocks(patched, factor)
            assert certificate(many_groups) == page
    assert certificate(many_groups) == page


def test_nothing_on_a_page_of_documents_reads_a_clock():
    folder = Path(_claims.__file__).parent
    for name in ("_claims", "_render", "_answer"):
        tree = ast.parse((folder / f"{name}.py").read_text())
        for node in ast.walk(tree):
            names = [alias.name for alias in getattr(node, "names", [])]
            assert "time" not in (*names, getattr(node, "module", None)), name


def test_operations_are_spent_and_do_not_come_back():
    budget = _claims.Budget()
    assert not budget.allows(_claims._MOST_NUMBERS + 1)
    assert not budget.has_sufficed
    budget = _claims.Budget()
    n = sum(budget.allows(_claims._MOST_NUMBERS) for _ in range(100))
    assert n == _claims._MOST_OPERATIONS // (_claims._MOST_NUMBERS + 1)
    assert not budget.has_sufficed
    budget = _claims.Budget()
    assert not budget.allows(1, 10**9)
    assert budget.allows(1, 10**4)
    assert not budget.has_sufficed


def test_an_ordinary_page_has_everything(many_groups):
    designs = many_groups.parts[:20]
    plan = many_groups.plan.model_copy(
        update={"designs": many_groups.plan.designs[:20]}
    )
    fewer = many_groups.model_copy(update={"plan": plan, "parts": designs})
    view = CertificateView(fewer, [], Facts())
    assert all(level.law and level.sensitivity for level in view.levels)
    assert not any(level.is_left_out for level in view.levels)
    assert view.claims[0].budget.has_sufficed
