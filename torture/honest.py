"""Honest calibrations of every promise, message and criterion, for the audit to
check.
"""

import numpy as np

import fedconformal as fc

SIZES = {"A": 14, "B": 20, "C": 9, "D": 30, "E": 20}
LARGER = {"A": 60, "B": 40, "C": 90, "D": 40}
KEYS = {site: fc.SigningKey.new() for site in SIZES}
PUBLIC = {site: key.public_key for site, key in KEYS.items()}
GRID = fc.Bins.uniform(0, 1, 12)
TEN = dict.fromkeys("ABCDEFGHIJ", 30)


class Free:
    """A ledger that charges nothing."""

    def answer(self, dataset, *, sample, **_):
        return sample()

    def keyed_hash(self, text):
        return text


def answer(plan, sizes, *, keys=None, seed=0):
    """Make reports of sites with these numbers of scores."""
    rng, reports = np.random.default_rng(seed), []
    private = any(getattr(design.message, "epsilon", None) for design in plan.designs)
    options = {"ledger": Free(), "dataset": "D"} if private else {}
    for site, own in sizes.items():
        groups = (
            np.repeat(list(own), list(own.values())) if isinstance(own, dict) else None
        )
        scores = rng.random(own if groups is None else groups.size)
        key = None if keys is None else keys[site]
        policy = fc.SitePolicy.unlimited()
        reports.append(
            fc.report(
                plan,
                scores,
                site=site,
                groups=groups,
                key=key,
                policy=policy,
                **options,
            )
        )
    return reports


def plain(sizes, answered=None, **options):
    plan = fc.plan(n_points=sizes, **options)
    reports = answer(plan, sizes if answered is None else answered)
    return fc.calibrate(plan, reports), reports


def without(sizes, *sites):
    return {site: n for site, n in sizes.items() if site not in sites}


def signed_groups():
    sizes = {"a": {"A": 40, "B": 40, "C": 40}, "b": {"A": 40, "B": 40}, "c": {"C": 30}}
    keys = {site: KEYS[site] for site in "ABC"}
    public = {site: key.public_key for site, key in keys.items()}
    plan = fc.plan(groups=sizes, confidence_level=0.8, keys=public)
    reports = answer(plan, {site: {"a": 40, "b": 40} for site in "AB"}, keys=keys)
    return fc.calibrate(plan, reports), reports


def signed():
    plan = fc.plan(
        n_points=SIZES,
        keys=PUBLIC,
        criterion="conditional",
        delta=0.3,
        confidence_level=0.8,
    )
    reports = answer(plan, without(SIZES, "A"), keys=KEYS)
    return fc.calibrate(plan, reports), reports


def by_class():
    sizes = {label: {"A": 20, "B": 20} for label in "01"}
    plan = fc.plan(groups=sizes, group_by="class", score="lac", confidence_level=0.6)
    reports = answer(plan, {site: {"0": 20, "1": 20} for site in "AB"})
    return fc.calibrate(plan, reports), reports


def one_refused():
    plan = fc.plan(n_points=SIZES)
    stray = fc.report(fc.plan(1, 40), np.arange(40.0), site="E")
    reports = answer(plan, without(SIZES, "E"))
    return fc.calibrate(plan, [*reports, stray], on_refused="skip"), reports


def opened(sizes, **options):
    plan = fc.plan(**options)
    reports = answer(plan, sizes)
    return fc.calibrate(plan, reports), reports


def noisy(sizes, answered=None, *, epsilon=4.0, keys=None, **options):
    bins = fc.Bins.uniform(0, 1, 8)
    privacy = fc.Privacy(epsilon=epsilon, bins=bins, **options.pop("privacy", {}))
    public = None if keys is None else {site: keys[site].public_key for site in sizes}
    plan = fc.plan(n_points=sizes, privacy=privacy, keys=public, **options)
    reports = answer(plan, sizes if answered is None else answered, keys=keys)
    return fc.calibrate(plan, reports), reports


def private_groups():
    privacy = fc.Privacy(epsilon=20.0, bins=fc.Bins.uniform(0, 1, 8))
    sizes = {label: {"A": 60, "B": 60} for label in "ab"}
    plan = fc.plan(groups=sizes, privacy=privacy, confidence_level=0.6)
    reports = answer(plan, {site: {"a": 60, "b": 60} for site in "AB"})
    return fc.calibrate(plan, reports), reports


def masked(sizes=LARGER, *, analysis="curve", epsilon=None, bearers=None, **options):
    """Make a masked sum over sites whose keys have answered nothing else."""
    keys = {site: fc.SigningKey.new() for site in sizes}
    public = {site: key.public_key for site, key in keys.items()}
    terms = {"model": "sha256:" + "a" * 64}
    if epsilon is None:
        options["curve"] = fc.Bins.uniform(0, 1, 12)
    else:
        bins = fc.Bins.uniform(0, 1, 8)
        options["privacy"] = fc.Privacy(
            epsilon, bins, analysis=analysis, bearers=bearers
        )
    plan = fc.plan(n_points=sizes, keys=public, masked=True, terms=terms, **options)
    rng, reports = np.random.default_rng(0), []
    for site, n in sizes.items():
        others = [key for other, key in public.items() if other != site]
        reports.append(
            fc.report(
                plan,
                site=site,
                key=keys[site],
                model=terms["model"],
                policy=fc.SitePolicy(sum_with=others),
                **_masked_data(plan, n, rng),
            )
        )
    return fc.calibrate(plan, reports), reports


def _masked_data(plan, n, rng):
    """Return what a site of n cases answers a masked plan with."""
    message, scores = plan.message, rng.random(n)
    if message.kind == "bin" or message.epsilon is not None:
        return {"scores": scores, "ledger": Free(), "dataset": "D"}
    if message.parts is not None:
        losses = np.sort(rng.random((n, len(message.edges))))[:, ::-1]
        losses[:, -1] = 0
        return {"losses": losses}
    if message.starts is not None:
        return {"scores": scores, "losses": (rng.random(n) < 0.01).astype(int)}
    return {"scores": scores}


HONEST = {
    "stable": lambda: plain(SIZES, confidence_level=0.8),
    "one refused": one_refused,
    "two levels, two numbers": lambda: plain(
        SIZES, confidence_level=[0.8, 0.9], numbers=2, criterion="marginal"
    ),
    "signed, conditional, one missing": signed,
    "unnamed, faulty, one missing": lambda: opened(
        dict.fromkeys("ABCDEF", 60),
        n_sites=7,
        n_points=60,
        confidence_level=0.7,
        max_faulty=1,
    ),
    "faulty, uneven": lambda: plain(LARGER, confidence_level=0.7, max_faulty=1),
    "faulty, uneven, three numbers": lambda: plain(
        {**LARGER, "E": 120}, confidence_level=0.7, max_faulty=1, numbers=3
    ),
    "open": lambda: opened(
        SIZES, n_sites=7, confidence_level=0.8, criterion="marginal"
    ),
    "open, three numbers": lambda: opened(
        SIZES, n_sites=list(SIZES), confidence_level=[0.7, 0.8], numbers=3
    ),
    "open, each site": lambda: opened(SIZES, promise="each-site", confidence_level=0.8),
    "groups, signed": signed_groups,
    "groups by class": by_class,
    "each site, one missing": lambda: plain(
        SIZES, without(SIZES, "A"), promise="each-site", confidence_level=0.8
    ),
    "each site, conditional": lambda: plain(
        {site: 4 * n for site, n in SIZES.items()},
        promise="each-site",
        criterion="conditional",
        confidence_level=0.7,
    ),
    "infinite": lambda: plain({"A": 3, "B": 4}),
    "mixture, one missing": lambda: plain(
        SIZES, without(SIZES, "A"), promise="mixture", confidence_level=0.6
    ),
    "mixture, out of reach": lambda: plain(
        LARGER, without(LARGER, "C"), promise="mixture", confidence_level=0.9
    ),
    "mixture of given shares": lambda: plain(
        LARGER,
        promise="mixture",
        mixture={"A": 0.2, "B": 0.5, "C": 0.1, "D": 0.2},
        confidence_level=0.8,
    ),
    "cases": lambda: opened(
        SIZES, n_sites=6, promise="new-site", confidence_level=0.6, numbers=2
    ),
    "cases of small sites": lambda: plain(
        {**TEN, "A": 2}, promise="new-site", numbers=3, confidence_level=[0.5, 0.8]
    ),
    "new sites": lambda: plain(
        TEN,
        promise="new-site",
        criterion="conditional",
        delta=0.3,
        confidence_level=0.6,
    ),
    "new sites, open": lambda: opened(
        TEN,
        n_sites=11,
        promise="new-site",
        criterion="conditional",
        delta=0.3,
        confidence_level=0.6,
    ),
    "curve": lambda: plain(
        SIZES, without(SIZES, "A"), curve=GRID, confidence_level=[0.6, 0.8]
    ),
    "curve, conditional": lambda: plain(
        SIZES, curve=GRID, criterion="conditional", confidence_level=0.8
    ),
    "curve, open": lambda: opened(SIZES, n_sites=6, curve=GRID, confidence_level=0.8),
    "curve, mixture": lambda: plain(
        SIZES, without(SIZES, "C"), curve=GRID, promise="mixture", confidence_level=0.7
    ),
    "curve, each site, open": lambda: opened(
        SIZES, n_sites=6, curve=GRID, promise="each-site", confidence_level=0.7
    ),
    "curve, each site": lambda: plain(
        SIZES,
        without(SIZES, "C"),
        curve=GRID,
        promise="each-site",
        confidence_level=0.8,
    ),
    "private curve": lambda: noisy(
        LARGER, without(LARGER, "B"), confidence_level=[0.6, 0.7]
    ),
    "private curve, conditional, signed": lambda: noisy(
        LARGER,
        keys={**KEYS},
        criterion="conditional",
        confidence_level=0.6,
        epsilon=10.0,
    ),
    "private curve, each site": lambda: noisy(
        LARGER, promise="each-site", confidence_level=0.6, epsilon=10.0
    ),
    "private groups": private_groups,
    "private cells": lambda: noisy(
        dict.fromkeys("ABC", 60),
        confidence_level=[0.5, 0.6],
        epsilon=20.0,
        privacy={"analysis": "paper"},
    ),
    "private cells, one missing": lambda: noisy(
        dict.fromkeys("ABCDE", 60),
        dict.fromkeys("ABCD", 60),
        confidence_level=0.6,
        epsilon=10.0,
        privacy={"analysis": "paper"},
    ),
    "masked": lambda: masked(confidence_level=[0.6, 0.8]),
    "masked, conditional": lambda: masked(
        criterion="conditional", confidence_level=0.7
    ),
    "masked losses": lambda: masked(parts=50, risk=0.6),
    "masked answers": lambda: masked(starts=3, criterion="conditional", risk=0.3),
    "masked noise": lambda: masked(epsilon=10.0, confidence_level=[0.5, 0.6]),
    "masked noise of two": lambda: masked(
        epsilon=10.0, bearers=2, confidence_level=0.6
    ),
    "masked cells": lambda: masked(
        dict.fromkeys("ABCD", 60),
        epsilon=20.0,
        analysis="paper",
        confidence_level=[0.5, 0.6],
    ),
}
