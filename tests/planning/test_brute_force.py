"""The search against brute force: every candidate with every number of votes, judged by
integrals of its own, whichever sites are faulty or missing.
"""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import special

from fedconformal.planning import CRITERIA, PROMISES, Goal
from fedconformal.planning._ballot import candidates, maxima
from fedconformal.planning._choosing import pivotal_sites
from planning.plans import alike

POPULATION = PROMISES["population"]()
NODES, WIDTHS = np.polynomial.legendre.leggauss(40)
PANELS = 50
EDGES = np.linspace(0, 1, PANELS + 1)
MIDDLES = (EDGES[:-1] + EDGES[1:]) / 2
C = (MIDDLES[:, None] + NODES / 2 / PANELS).ravel()
W = np.tile(WIDTHS / 2 / PANELS, PANELS)


class Federation:
    """Sites one by one; c is where P(coverage <= c) is known, the level at its end."""

    def __init__(self, sizes, goal):
        self.sizes = sorted(sizes)
        self.sites = alike(self.sizes)
        self.goal, self.level = goal, float(goal.level)
        self.c = np.append(C, self.level)
        self.known = {}

    def share_below(self, n, rank):
        """How likely a site's number of this rank lies below each coverage."""
        if (n, rank) not in self.known:
            below = np.zeros(self.c.size)
            if rank <= n:
                below = special.betainc(rank, n - rank + 1, self.c)
            self.known[n, rank] = below
        return self.known[n, rank]

    def distribution(self, sites):
        """P(votes = 0, 1, ... below c) of sites with ranks and votes: (votes, c)."""
        masses = np.ones((1, self.c.size))
        for n, ranks, votes in sites:
            at_least = [np.ones(self.c.size)]
            at_least += [self.share_below(n, rank) for rank in ranks]
            at_least += [np.zeros(self.c.size)]
            longer = np.zeros((len(masses) + sum(votes), self.c.size))
            for i in range(len(ranks) + 1):
                cast = sum(votes[:i])
                mass = at_least[i] - at_least[i + 1]
                longer[cast : cast + len(masses)] += masses * mass
            masses = longer
        return masses

    def tails(self, sites):
        """The largest P(votes >= k) over all sets of faulty sites, who cast all their
        votes: (k, c).
        """
        total = sum(sum(votes) for _, _, votes in sites)
        worst = np.zeros((total + 2, self.c.size))
        for faulty in combinations(range(len(sites)), self.goal.max_faulty):
            lies = sum(sum(sites[j][2]) for j in faulty)
            honest = [site for j, site in enumerate(sites) if j not in faulty]
            masses = self.distribution(honest)
            above = np.cumsum(masses[::-1], axis=0)[::-1]
            worst[: lies + 1] = 1.0
            worst[lies : lies + len(above)] = np.maximum(
                worst[lies : lies + len(above)], above
            )
        return worst

    def votes_of_liars(self, sites):
        """The most votes that faulty sites can cast, or withhold."""
        each = sorted((sum(votes) for _, _, votes in sites), reverse=True)
        return sum(each[: self.goal.max_faulty])

    def judge(self, sites):
        """Votes, cost and whether it is valid, for every number of votes that faulty
        sites can neither reach nor withhold.
        """
        lies = self.votes_of_liars(sites)
        finite = sum(
            vote
            for n, ranks, votes in sites
            for rank, vote in zip(ranks, votes, strict=True)
            if rank <= n
        )
        tails = self.tails(sites)
        for k in range(lies + 1, finite - lies + 1):
            missed = tails[k, :-1]
            mean = 1 - missed @ W
            variance = 1 - 2 * (self.c[:-1] * missed) @ W - mean**2
            margin = mean - self.level
            if self.goal.criterion.takes_delta:
                margin = float(self.goal.delta) - tails[k, -1]
            yield k, self.goal.criterion.cost(mean, variance, self.goal), margin

    def tolerates(self, sites):
        """Whether some votes are valid, whichever sites are missing; a site without
        votes is not asked.
        """
        asked = [site for site in sites if sum(site[2])]
        missing = self.goal.max_missing or 0
        for absent in combinations(range(len(asked)), missing):
            there = [site for j, site in enumerate(asked) if j not in absent]
            if len(there) <= 2 * self.goal.max_faulty:
                return False
            if not any(margin > 1e-9 for _, _, margin in self.judge(there)):
                return False
        return True

    def family(self, numbers):
        """Ranks and votes of every site, for each candidate that the search knows."""
        searched = (
            candidates(self.sites, self.goal, each) for each in range(1, numbers + 1)
        )
        for tried in (maxima(self.sites), *searched):
            for row in range(len(tried)):
                yield [
                    (int(n), tuple(ranks.tolist()), tuple(votes.tolist()))
                    for n, ranks, votes, count in zip(
                        tried.n_points,
                        tried.ranks[row],
                        tried.weights[row],
                        tried.counts,
                        strict=True,
                    )
                    for _ in range(count)
                ]
        yield from self.largest_alone()

    def largest_alone(self):
        """The largest site alone, where the spread counts and nobody may be missing."""
        goal, sizes = self.goal, self.sizes
        several = sizes.count(sizes[-1]) > 1 or goal.max_faulty or goal.max_missing
        if several or not goal.criterion.heeds_spread:
            return
        for rank in range(1, sizes[-1] + 1):
            others = [(n, (n + 1,), (0,)) for n in sizes[:-1]]
            yield [*others, (sizes[-1], (rank,), (1,))]

    def all_decide(self, sites, votes):
        """Whether every site with votes can change the threshold."""
        table = np.array([each for _, _, each in sites])
        counts = np.ones(len(sites), dtype=np.int64)
        asked = table.any(axis=1)
        return pivotal_sites(table, counts, votes)[asked].all()

    def lowest_cost(self, numbers):
        """The lowest cost of any valid choice that tolerates missing sites; under a
        criterion that does not heed the spread, of those in which all sites decide.
        """
        choices = []
        for sites in self.family(numbers):
            valid = [
                (cost, k) for k, cost, margin in self.judge(sites) if margin > 1e-9
            ]
            choices += [(cost, k, sites) for cost, k in valid]
        choices.sort(key=lambda choice: choice[0])
        decide = not self.goal.criterion.heeds_spread and not (
            self.goal.max_faulty and self.goal.max_missing
        )
        refused = set()
        fallback = math.inf
        for cost, k, sites in choices:
            key = tuple(sites)
            if key in refused:
                continue
            if self.goal.max_missing and not self.tolerates(sites):
                refused.add(key)
                continue
            if not decide or self.all_decide(sites, k):
                return cost
            fallback = min(fallback, cost)
        return fallback


def planned(sizes, goal, numbers):
    """The solution, and its cost by its own law; infinite if there is none."""
    found = POPULATION.choose(alike(sorted(sizes)), goal, numbers, None)
    if not found.is_finite:
        return found, math.inf
    law = POPULATION.law(found, goal)
    return found, goal.criterion.cost(law.mean(), law.var(), goal)


def check_against_brute_force(sizes, goal, numbers):
    """The plan is valid, tolerates what it must, and costs as little as anything."""
    federation = Federation(sizes, goal)
    found, cost = planned(sizes, goal, numbers)
    lowest = federation.lowest_cost(numbers)
    case = sizes, goal, numbers, found
    assert cost <= lowest * (1 + 1e-6) + 1e-9, (case, cost, lowest)
    if not found.is_finite:
        return
    ballot = found.ballot
    sites = [
        (kind.n, ranks, votes)
        for kind, ranks, votes in zip(
            ballot.sites, ballot.ranks, ballot.votes, strict=True
        )
        for _ in range(kind.count)
    ]
    margins = {k: margin for k, _, margin in federation.judge(sites)}
    assert margins[found.needed] >= -1e-9, case
    assert not goal.max_missing or federation.tolerates(sites), case


def goal_of(level, criterion, max_faulty=0, max_missing=0):
    return Goal(
        Fraction(level),
        CRITERIA[criterion](),
        max_faulty=max_faulty,
        max_missing=max_missing,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "numbers", "goal"),
    [
        ([12, 20, 31], 1, goal_of("0.8", "stable")),
        ([9, 14, 25, 25], 2, goal_of("0.8", "conditional")),
        ([60, 14, 42, 90], 1, goal_of("0.9", "conditional", max_faulty=1)),
        ([30, 18, 42, 60], 1, goal_of("0.8", "stable", max_faulty=1)),
        ([30, 18, 42, 60], 1, goal_of("0.8", "stable", max_missing=1)),
        ([30, 18, 42, 60, 33], 1, goal_of("0.7", "stable", 1, 1)),
        ([12, 12, 12], 2, goal_of("0.7", "marginal")),
    ],
)
def test_nothing_that_the_search_knows_is_cheaper(sizes, numbers, goal):
    check_against_brute_force(sizes, goal, numbers)


@pytest.mark.nightly
@pytest.mark.parametrize("criterion", ["stable", "conditional", "marginal"])
@pytest.mark.parametrize("max_missing", [0, 1])
@pytest.mark.parametrize("max_faulty", [0, 1])
def test_nothing_is_cheaper_in_any_small_federation(criterion, max_missing, max_faulty):
    """Federations of 2 to 6 sites of 5 to 150 scores, the same ones every time."""
    rng = np.random.default_rng([3, max_missing, max_faulty, len(criterion)])
    for _ in range(8):
        m = int(rng.integers(2 + 2 * max_faulty, 7))
        sizes = np.exp(rng.uniform(math.log(5), math.log(150), m)).astype(int).tolist()
        level = str(rng.choice(["0.5", "0.8", "0.9"]))
        goal = goal_of(level, criterion, max_faulty, max_missing)
        check_against_brute_force(sizes, goal, int(rng.integers(1, 3)))


@pytest.mark.parametrize(
    ("sizes", "numbers", "goal", "limit"),
    [
        ([176, 14, 42, 259], 1, goal_of("0.95", "conditional", 1, None), 0.96755),
        (
            [29, 14, 1077, 47, 8, 65, 11, 220, 230, 91],
            2,
            goal_of("0.9", "stable", 1, 1),
            0.01181**2,
        ),
    ],
)
def test_of_few_votes_all_candidates_are_judged(sizes, numbers, goal, limit):
    """An approximation of so few votes put the best candidate last, or behind many
    that do not tolerate a missing site.
    """
    assert planned(sizes, goal, numbers)[1] <= limit
