"""A coordinator who tries to take masked sums apart: many questions to the same sites, some sites his own.

Each question is over the same sites as most others, or over some with new or exchanged names and keys, with
invented sites or one key under several names; exact or with noise; of calibration scores, of groups of them,
or of later cases. Each site is asked twice, and its cases change now and then, all of them or one. What the
coordinator can read of exact numbers are the sums over the honest sites of complete questions: no combination
of these may be about the cases of one honest site alone.
"""

import contextlib
import hashlib
import random
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import fedconformal as fc
from fedconformal import monitoring
from fedconformal.documents import CheckQuestion, SiteKey
from fedconformal.protocol._masking import add_up, mask
from torture._run import Section

HONEST = ("north", "south", "west", "east", "centre")
OWN, INVENTED = "mallory", "nowhere"
GRID = fc.Bins.uniform(0, 1, 5)
N, QUESTIONS = 12, 10
LABELS = ["x", "y"] * (N // 2)


@lru_cache
def key_of(name: str) -> fc.SigningKey:
    """Return the key of a site, the same in every trial."""
    return fc.SigningKey(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest()))


@dataclass
class Federation:
    """Honest sites with their policies and ledgers, and what has left them: answers, and cases behind each.

    ``sums`` has for each exact sum that can be read the cases of every honest site in it.
    """

    folder: Path
    rng: random.Random
    cases: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    answers: dict[tuple[str, str], str] = field(default_factory=dict)
    behind: dict[tuple[str, str], dict[str | None, np.ndarray]] = field(default_factory=dict)
    sums: list[dict[str, np.ndarray]] = field(default_factory=list)

    def draw(self, site: str, about: str) -> np.ndarray:
        """Return the cases of a site for what is asked about; now and then one or all of them are others."""
        usual = self.cases.setdefault((site, about), self.fresh())
        change = self.rng.random()
        if change < 0.1:
            return np.append(usual[1:], self.rng.random())
        return self.fresh() if change < 0.2 else usual

    def fresh(self) -> np.ndarray:
        """Draw cases that nobody had before."""
        return np.array([self.rng.random() for _ in range(N)])

    def ask(self, owner: str, name: str, document: Any, about: str) -> str | None:
        """Ask one honest site twice under a name; return the digest of what it answered, if it did."""
        known = [key_of(site).public_key for site in (*HONEST, OWN) if site != owner]
        policy = fc.SitePolicy(sum_with=known, min_sum_with=2, sum_record=self.folder / f"{owner}.sums")
        options = {"site": name, "key": key_of(owner), "policy": policy}
        digest = None
        for _ in range(2):
            cases = self.draw(owner, about)
            with contextlib.suppress(ValueError):
                if isinstance(document, fc.Plan):
                    answer, parts = self._report(owner, document, cases, options)
                    given = document.digest
                else:
                    prepared = monitoring.prepare_answer(
                        document,
                        cases,
                        masked=True,
                        period=getattr(document, "period", None) or about,
                        **options,
                    )
                    answer, parts, given = (
                        prepared.make(),
                        {None: cases},
                        f"{document.calibration_digest} {about}",
                    )
                before = self.answers.setdefault((owner, given), answer.to_json())
                assert answer.to_json() == before, "two answers of one site to one question"
                self.behind.setdefault((owner, given), parts)
                digest = given
        return digest

    def _report(self, owner: str, plan: fc.Plan, cases: np.ndarray, options: Mapping[str, Any]) -> Any:
        """Return a report, and the cases of each group."""
        labels = np.array(LABELS if self.rng.random() < 0.9 else LABELS[::-1])
        account = {}
        if plan.message.epsilon is not None:
            account = {"ledger": fc.Ledger(self.folder / f"{owner}.ledger"), "dataset": "cases"}
        if not plan.is_grouped:
            return fc.report(plan, cases, **account, **options), {None: cases}
        parts = {label: cases[labels == label] for label in "xy"}
        return fc.report(plan, cases, groups=labels, **account, **options), parts


def make_owners(rng: random.Random) -> dict[str, str]:
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
        usual = make_owners(rng)
        for _ in range(QUESTIONS):
            owners = usual if rng.random() < 0.75 else make_owners(rng)
            with contextlib.suppress(ValueError):  # not even a plan or a calibration
                _ask_all(federation, owners, rng)
    _check_combinations(federation.sums)
    return QUESTIONS


def _ask_all(federation: Federation, owners: Mapping[str, str], rng: random.Random) -> None:
    """Ask one question of all its sites; note the sums if it is complete and exact."""
    kind = rng.choice(("exact", "exact", "groups", "private", "check", "question"))
    keys = {name: key_of(owner).public_key for name, owner in owners.items()}
    about = rng.choice(("2027-01", "2027-02")) if kind in ("check", "question") else "now"
    document = _make_document(kind, owners, keys, about, federation)
    digests = {
        owner: federation.ask(owner, name, document, about)
        for name, owner in owners.items()
        if owner in HONEST
    }
    if None in digests.values() or kind == "private":
        return
    behind = {owner: federation.behind[owner, digest] for owner, digest in digests.items() if digest}
    groups = {group for parts in behind.values() for group in parts}
    federation.sums += [{owner: parts[group] for owner, parts in behind.items()} for group in groups]
    if kind == "exact":
        payloads = [
            fc.Report.from_json(federation.answers[owner, document.digest]).payload
            if owner in HONEST
            else mask(document, None, [N, 0, 0, 0, 0], key_of(owner))
            for owner in owners.values()
        ]
        assert sum(add_up(payloads)) == N * len(owners), "masks do not cancel"


def _make_document(
    kind: str, owners: Mapping[str, str], keys: Mapping[str, str], about: str, federation: Federation
) -> Any:
    """Return a plan, a calibration that the coordinator made of scores of his own, or a question about it."""
    rng, options = federation.rng, {"keys": keys, "confidence_level": 0.5}
    sizes = {"n_points": dict.fromkeys(owners, N)}
    if kind == "private":
        return fc.plan(**sizes, **options, masked=True, privacy=fc.Privacy(1.0, GRID))
    if kind == "groups":
        own = {label: rng.sample(list(owners), len(owners) - (rng.random() < 0.2)) for label in "xy"}
        groups = {label: dict.fromkeys(sites, N // 2) for label, sites in own.items()}
        return fc.plan(groups=groups, **options, masked=True, curve=GRID)
    if kind == "exact":
        terms = {"round": f"{rng.randrange(4):032x}"}
        given = sizes if rng.random() < 0.7 else {"n_sites": list(owners)}
        return fc.plan(**given, **options, masked=True, curve=GRID, terms=terms)
    plain, scores = fc.plan(**sizes, **options), federation.fresh()
    calibration = fc.calibrate(
        plain, [fc.report(plain, scores, site=name, key=key_of(owners[name])) for name in owners]
    )
    if kind == "check":
        return calibration
    listed = [(name, owners[name]) for name in owners]
    listed += [(f"again {i}", rng.choice(list(owners.values()))) for i in range(rng.randint(0, 2))]
    site_keys = tuple(SiteKey(site=name, public_key=key_of(owner).public_key) for name, owner in listed)
    return CheckQuestion.of(calibration, about, site_keys).model_copy(update={"thresholds": (rng.random(),)})


def _check_combinations(sums: list[dict[str, np.ndarray]]) -> None:
    """Check that no linear combination of sums is about cases of one honest site alone."""
    places: dict[tuple[str, float], int] = {}
    for one in sums:
        for site, cases in one.items():
            for case in cases.tolist():
                places.setdefault((site, case), len(places))
    rows = np.zeros((len(sums), len(places)))
    for row, one in zip(rows, sums, strict=True):
        for site, cases in one.items():
            for case in cases.tolist():
                row[places[site, case]] += 1
    for site in HONEST:
        others = [place for (owner, _), place in places.items() if owner != site]
        assert not sums or np.linalg.matrix_rank(rows) == np.linalg.matrix_rank(rows[:, others]), (
            f"cases of {site} follow from sums"
        )


SECTION = Section(
    "masks",
    "questions of a coordinator who owns a site",
    "one answer to each question, masks cancel, and no combination of exact sums is about one honest site",
    attack,
    runs=500,
    quick=4,
)
