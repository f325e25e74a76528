"""The bound on a private law a second time: each is the other's oracle."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.audit import verify
from fedconformal.audit._private import PRIVATE_ERROR, PrivateRecount, free_slopes, papers_errors, rank_bound
from fedconformal.documents import ReportPart, Sent

BINS = fc.Bins.uniform(0, 1, 30)


def sent(plan, n, i, bin_):
    """The report of a site that drew this bin."""
    (level,) = [Sent(ranks=ranks, values=(plan.bins.value(bin_),)) for ranks in plan.ranks_for(n)]
    part = ReportPart(n=n, levels=(level,))
    return fc.Report(plan=plan.digest, site=f"site {i}", parts=(part,))


def calibrated(counts, *, bin_=27, **options):
    rule = {name: options.pop(name) for name in ("mechanism", "analysis") if name in options}
    privacy = fc.Privacy(epsilon=options.pop("epsilon", 2.0), bins=BINS, **rule)
    plan = fc.plan(n_points=counts, privacy=privacy, **options)
    if plan.max_faulty:  # which no sum of vectors can bear
        return fc.calibrate(plan, [sent(plan, n, i, bin_) for i, n in enumerate(counts)])
    histogram = np.tile(len(counts) * np.eye(30, dtype=int)[bin_], (len(plan.levels), 1))
    return fc.calibrate_histogram(plan, histogram)


def is_promise(finding):
    return "coverage" in finding.claim or "all sites reach it" in finding.claim


CASES = [
    ([300] * 5, {}),
    ([300] * 5, {"mechanism": "exponential"}),
    ([500] * 10, {"analysis": "paper"}),
    ([200, 300, 300], {"criterion": "conditional"}),
    ([300] * 7, {"max_faulty": 1}),
    ([600] * 4, {"confidence_level": [0.8, 0.85]}),
    ([300, 400], {"promise": "each-site"}),
    ([400] * 3, {"promise": "each-site", "criterion": "conditional"}),
]


@pytest.fixture(
    scope="module", params=CASES, ids=lambda case: "-".join(map(str, case[1].values())) or "tight"
)
def calibration(request):
    sizes, options = request.param
    return calibrated(sizes, **options)


@pytest.mark.slow
def test_the_laws_agree(calibration):
    for i, law in enumerate(calibration.laws):
        recount, c = PrivateRecount.of(calibration, i), np.linspace(0.6, 0.97, 9)
        laws = [recount]
        if calibration.plan.promise == "each-site":  # the worst of all sites' own
            laws = [alone for alone, _ in recount.alone]
        assert min(each.mean() for each in laws) == pytest.approx(law.mean(), abs=PRIVATE_ERROR)
        worst = np.max([each.cdf(c) for each in laws], axis=0)
        np.testing.assert_allclose(worst, law.cdf(c), atol=PRIVATE_ERROR)


@pytest.mark.slow
def test_every_claim_holds(calibration):
    findings = verify(calibration)
    assert all(finding.holds for finding in findings)
    assert any(is_promise(finding) for finding in findings)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ([200] * 9, {}),
        ([200] * 9, {"mechanism": "exponential"}),
        ([200] * 9, {"criterion": "conditional"}),
        ([300] * 7, {"max_faulty": 1}),
        ([300, 400], {"promise": "each-site"}),
        ([400] * 3, {"promise": "each-site", "criterion": "conditional"}),
    ],
)
def test_one_vote_less_is_found(sizes, options):
    calibration = calibrated(sizes, **options)
    part = calibration.parts[0]
    level = part.levels[0].model_copy(update={"server_rank": part.levels[0].server_rank - 1})
    assert level.server_rank > calibration.plan.max_faulty
    forged = calibration.model_copy(update={"parts": (part.model_copy(update={"levels": (level,)}),)})
    (finding,) = filter(is_promise, verify(forged))
    assert finding.holds is False


shares = st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=100)
noises = {
    "epsilon": st.sampled_from([0.1, 1.0, 5.0]),
    "mechanism": st.sampled_from(["permute-and-flip", "exponential"]),
}


@settings(max_examples=25)
@given(n=st.integers(1, 60), n_bins=st.integers(2, 40), quantile=shares, slope=shares, **noises)
def test_bounds_on_the_rank_are_those_of_the_release(n, n_bins, quantile, slope, epsilon, mechanism):
    privacy = fc.Privacy(epsilon=epsilon, bins=fc.Bins.uniform(0, 1, n_bins), mechanism=mechanism)
    release = privacy.release().aiming_at(quantile, slope)
    found = rank_bound(free_slopes(n, quantile, slope), n_bins, release.epsilon, mechanism)
    np.testing.assert_allclose(found, release.tail(n)[1:], rtol=1e-8, atol=PRIVATE_ERROR)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(1, 60), st.integers(2, 40), shares.filter(lambda q: q >= 0.5), noises["epsilon"])
def test_so_are_the_papers(n, n_bins, quantile, epsilon):
    privacy = fc.Privacy(epsilon=epsilon, bins=fc.Bins.uniform(0, 1, n_bins), analysis="paper")
    release = privacy.release().aiming_at(quantile)
    found = rank_bound(papers_errors(n, quantile), n_bins, release.epsilon, "exponential")
    np.testing.assert_allclose(found, release.tail(n)[1:], rtol=1e-8, atol=PRIVATE_ERROR)
