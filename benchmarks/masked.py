"""Masked sums: what the masks of 99 other sites cost a site, and their sum the server.

A masked report of 1,000 cells stands beside the same report without masks, in time and
bytes; adding up all reports beside adding up those without masks. Noise of two bearers
stands beside that of all sites, in the mean coverage of even scores. Goals: 50 ms at a
site and 100 ms at the server, and coverage at most as stated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

import fedconformal as fc
from benchmarks._rows import Figure, Row, beside, timed
from benchmarks._timing import Comparison, compare
from fedconformal.messages import Answer, of
from fedconformal.protocol import prepare
from fedconformal.protocol._masking import mask, mask_salt

SITE_SECONDS, SERVER_SECONDS = 0.05, 0.1
# Cells, criterion, and the coverage not to be exceeded, of 10 sites with 500 scores and
# epsilon 1.
COVERAGE = (
    (100, "stable", 0.9065),
    (200, "stable", 0.9045),
    (200, "conditional", 0.910),
)
SHORT = {"sites": 20}
LEFT_OUT = "100 sites"
MODEL = f"sha256:{64 * 'a'}"


def run(
    *,
    sites: int = 100,
    cells: int = 1000,
    repetitions: int = 5,
    coverage: Sequence[tuple[int, str, float]] = COVERAGE,
) -> Iterator[Row]:
    """Sites and cells; how often it is timed; settings of which the coverage is
    simulated.
    """
    keys = {f"site {j}": fc.SigningKey.new() for j in range(sites)}
    public, bins = (
        {site: key.public_key for site, key in keys.items()},
        fc.Bins.uniform(0, 1, cells),
    )
    options = {"n_points": dict.fromkeys(keys, 100), "keys": public, "curve": bins}
    options["terms"] = {"model": MODEL}
    plain, masked = fc.plan(**options), fc.plan(**options, masked=True)
    scores = np.random.default_rng(0).random(100)
    policy = fc.SitePolicy(
        curves="plain", sum_with=public.values(), masked_only=False, model=MODEL
    )
    both = []
    for plan in (plain, masked):
        answers = {
            site: prepare(plan, scores, site=site, key=key, policy=policy)
            for site, key in keys.items()
        }
        both.append([prepared.report() for prepared in answers.values()])
    site, key = next(iter(keys.items()))
    counts = of(plain.message).vector(
        plain.designs[0], Answer(site, 100, both[0][0].payload)
    )
    setting = f"{sites} sites, {cells:,} cells"
    answer = partial(fc.report, plain, scores, site=site, key=key, policy=policy)
    others = [each for each in public.values() if each != key.public_key]
    result = compare(
        [lambda: mask(counts, key, others, mask_salt(masked.digest), 0)] * repetitions,
        answer,
    )
    yield _timed(
        "masks of a site", setting, result, "the report without masks", SITE_SECONDS
    )
    result = compare(
        [partial(fc.calibrate, masked, both[1])] * repetitions,
        partial(fc.calibrate, plain, both[0]),
    )
    yield _timed("calibrate, masked", setting, result, "without masks", SERVER_SECONDS)
    words = ("without masks", "")
    sizes = [
        Figure(len(reports[0].to_json(indent=None)), "bytes", word)
        for reports, word in zip(both, words, strict=True)
    ]
    yield beside("a masked report", setting, sizes[1], sizes[0], goal="")
    yield from _cover(coverage)


def _timed(
    name: str, setting: str, result: Comparison, yardstick: str, most: float
) -> Row:
    row = timed(name, setting, result, yardstick)
    return replace(row, goal=f"{1000 * most:.0f} ms", met=result.ours <= most)


def _cover(settings: Sequence[tuple[int, str, float]]) -> Iterator[Row]:
    keys = {f"site {j}": fc.SigningKey.new().public_key for j in range(10)}
    for cells, criterion, most in settings:
        means = []
        for bearers in (2, None):
            privacy = fc.Privacy(1.0, fc.Bins.uniform(0, 1, cells), bearers=bearers)
            options = {
                "n_points": dict.fromkeys(keys, 500),
                "keys": keys,
                "criterion": criterion,
            }
            plan = fc.plan(**options, privacy=privacy, masked=True)
            mean, spread = of(plan.message).expected(plan.designs[0], 0)
            means.append(Figure(mean, "coverage", f"spread {spread:.4f}"))
        setting = f"10 sites of 500, epsilon 1, {cells} cells, {criterion}"
        yield Row(
            "noise of two bearers",
            setting,
            *means,
            goal=f"at most {most}",
            met=means[0].value <= most,
        )
