"""A coordinator who tries to take masked sums apart: many questions to the same sites, some sites his own.

Each question is over some of the sites, with new or exchanged names and keys, with sites that were invented,
exact or with noise, of calibration scores or of later cases; each site is asked twice, with other data the
second time. What the coordinator can read of exact numbers are the sums over the honest sites of complete
questions: the numbers of fewer than two honest sites must not follow from these, however they are combined.
"""

import contextlib
import hashlib
import random
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import fedconformal as fc
from fedconformal import monitoring
from fedconformal.protocol._masking import add_up, mask
from torture._run import Section

HONEST = ("north", "south", "west", "east", "centre")
OWN, INVENTED = "mallory", "nowhere"
GRID = fc.Bins.uniform(0, 1, 5)
N = 12
QUESTIONS = 10


@lru_cache
def key_of(name: str) -> fc.SigningKey:
    """Return the key of a site, the same in every trial."""
    return fc.SigningKey(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest()))


@dataclass
class Federation:
    """Honest sites with their policies and ledgers, and everything that has left them."""

    folder: Path
    rng: random.Random
    answers: dict[tuple[str, str], str] = field(default_factory=dict)
    sums: list[frozenset[str]] = field(default_factory=list)

    def policy(self, site: str) -> fc.SitePolicy:
        """Return the policy of an honest site, which pins the keys of all sites that it knows."""
        known = [key_of(name).public_key for name in (*HONEST, OWN) if name != site]
        return fc.SitePolicy(sum_with=known, min_sum_with=2, sum_record=self.folder / f"{site}.sums")

    def scores(self) -> np.ndarray:
        """Draw the cases of a site anew."""
        return np.array([self.rng.random() for _ in range(N)])

    def ask(self, site: str, name: str, document: fc.Plan | fc.Calibration, period: str | None) -> bool:
        """Ask one honest site twice under a name; return whether it answered."""
        options = {"site": name, "key": key_of(site), "policy": self.policy(site)}
        given = set()
        for _ in range(2):
            with contextlib.suppress(ValueError):
                if isinstance(document, fc.Calibration):
                    answer = monitoring.answer(document, self.scores(), masked=True, period=period, **options)
                    digest = answer.sum_digest
                else:
                    ledger = fc.Ledger(self.folder / f"{site}.ledger")
                    private = document.message.epsilon is not None
                    account = {"ledger": ledger, "dataset": "cases"} if private else {}
                    answer = fc.report(document, self.scores(), **account, **options)
                    digest = document.digest
                given.add(answer.to_json())
                before = self.answers.setdefault((site, digest), answer.to_json())
                assert answer.to_json() == before, "two answers of one site under one digest"
        return bool(given)


def make_keys(rng: random.Random) -> Mapping[str, str]:
    """Return the names of a question, and whose key each has: honest sites, perhaps exchanged, and others."""
    owners = rng.sample(HONEST, rng.randint(1, len(HONEST)))
    owners += [OWN] * rng.randint(0, 1) + [INVENTED] * (rng.random() < 0.2)
    names = owners if rng.random() < 0.7 else rng.sample(owners, len(owners))
    return dict(zip(names, owners, strict=True))


def attack(seed: int) -> int:
    """Ask many questions, and combine what was answered."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        federation = Federation(Path(folder), rng)
        for site in HONEST:
            fc.Ledger.create(federation.folder / f"{site}.ledger").set_budget("cases", 3)
        for _ in range(QUESTIONS):
            _ask_all(federation, rng)
    _check_combinations(federation.sums)
    return QUESTIONS


def _ask_all(federation: Federation, rng: random.Random) -> None:
    """Ask one question of all its sites; note the sum if it is complete and exact."""
    owners = make_keys(rng)
    keys = {name: key_of(owner).public_key for name, owner in owners.items()}
    options = {"n_points": dict.fromkeys(owners, N), "keys": keys, "confidence_level": 0.5}
    kind = rng.choice(("exact", "exact", "private", "check"))
    period = rng.choice(("2027-01", "2027-02")) if kind == "check" else None
    with contextlib.suppress(ValueError):
        if kind == "private":
            plan = fc.plan(**options, masked=True, privacy=fc.Privacy(1.0, GRID))
        else:
            plan = fc.plan(**options, masked=True, curve=GRID, terms={"round": f"{rng.randrange(4):032x}"})
        document: fc.Plan | fc.Calibration = plan
        if kind == "check":  # of a calibration that the coordinator made of scores of its own
            plain = fc.plan(**options)
            scores = federation.scores()
            own = [fc.report(plain, scores, site=name, key=key_of(owners[name])) for name in owners]
            document = fc.calibrate(plain, own)
        answered = [
            federation.ask(owner, name, document, period) for name, owner in owners.items() if owner in HONEST
        ]
        if all(answered) and kind != "private":
            federation.sums.append(frozenset(owners.values()) & frozenset(HONEST))
        if all(answered) and kind == "exact":
            _check_sum(federation, plan, owners)


def _check_sum(federation: Federation, plan: fc.Plan, owners: Mapping[str, str]) -> None:
    """Check that masks cancel: the sum of a complete question has one case of each in all."""
    payloads = []
    for name, owner in owners.items():
        if owner in HONEST:
            report = fc.Report.from_json(federation.answers[owner, plan.digest])
            assert report.site == name, "an answer under a name that was not asked"
            payloads.append(report.payload)
        else:
            payloads.append(mask(plan, None, [N, 0, 0, 0, 0], key_of(owner)))
    assert sum(add_up(payloads)) == N * len(owners), "masks do not cancel"


def _check_combinations(sums: list[frozenset[str]]) -> None:
    """Check that no linear combination of sums is about fewer than two honest sites."""
    if not sums:
        return
    rows = np.array([[site in members for site in HONEST] for members in sums], dtype=float)
    rank = np.linalg.matrix_rank(rows)
    for site in HONEST:
        alone = np.array([[one == site for one in HONEST]], dtype=float)
        assert np.linalg.matrix_rank(np.vstack([rows, alone])) > rank, (
            f"the numbers of {site} follow from sums"
        )


SECTION = Section(
    "masks",
    "questions of a coordinator who owns a site",
    "one answer for each question, masks cancel, and the exact numbers of no honest site follow from sums",
    attack,
    runs=500,
    quick=4,
)
