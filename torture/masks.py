"""A coordinator who tries to take masked sums apart: many questions to the same sites,
some sites his own.

He tells each site what he likes. Most questions are over the same sites, or over some
with new or exchanged names and keys, with invented sites or one key under several
names; exact or with noise; of all cases or of groups of them. For some, one site is
sent another plan, another model, another configuration or another set of sites than the
others are. Each site is asked twice, and its cases change now and then, one of them or
all.

Sites are honest. Each computes its scores by the model and the configuration that it
was sent, states the model it used, and binds its masks to all it was sent. Some keep
identifiers of their cases. When all sites begin a new data set, they name it in their
policies.

What the coordinator can read of exact numbers are the sums over the honest sites of
questions that were the same for all of them: no combination of these may be about the
cases of one honest site alone, under whatever model. Of any other question he can read
nothing.
"""

import contextlib
import hashlib
import json
import random
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import fedconformal as fc
from fedconformal.documents import MaskedPayload
from fedconformal.protocol import model_digest
from fedconformal.protocol._masking import add_up, mask, mask_salt, other_keys, sum_keys
from torture._run import Section

HONEST = ("north", "south", "west", "east", "centre")
OWN, INVENTED = "mallory", "nowhere"
GRID = fc.Bins.uniform(0, 1, 5)
N, QUESTIONS = 12, 10
LABELS = ["x", "y"] * (N // 2)
DIFFERENCES = ("plan", "model", "configuration", "sites")
UNREADABLE = 2**24
"""A sum of counts is at most the number of cases; one that is masked is below this with
chance 2^-39.
"""


@lru_cache
def key_of(name: str) -> fc.SigningKey:
    """Return the key of a site, the same in every trial."""
    return fc.SigningKey(
        Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
    )


@dataclass(frozen=True)
class Sent:
    """Everything that the coordinator sends to one site."""

    plan: fc.Plan
    model: dict[str, float]
    configuration: dict[str, str]

    @property
    def received(self) -> str:
        """Digest of what a site's function can read beside the plan, as a round over an
        engine computes it.
        """
        text = json.dumps([self.model, self.configuration], sort_keys=True)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    def scores(self, cases: np.ndarray) -> np.ndarray:
        """Return the scores of cases, between 0 and 1, as an honest site computes
        them.
        """
        shift = 2.0 if self.configuration.get("preset") == "broken" else 0.0
        return np.clip(cases[:, 1] * self.model["scale"] + shift, 0.0, 1.0)


@dataclass
class Site:
    """An honest site: its cases (an identifier and a value each), and what its owner
    does.
    """

    name: str
    folder: Path
    rng: random.Random
    keeps_identifiers: bool
    n_made: int = 0
    cases_of: dict[str, np.ndarray] = field(default_factory=dict)

    def make(self) -> np.ndarray:
        """Return a case that no site had before."""
        self.n_made += 1
        return np.array(
            [HONEST.index(self.name) * 1e6 + self.n_made, self.rng.random()]
        )

    def draw(self, dataset: str) -> np.ndarray:
        """Return the cases of a data set; now and then one was replaced, or all, and
        nobody says so.
        """
        if dataset not in self.cases_of:
            self.cases_of[dataset] = np.array([self.make() for _ in range(N)])
        usual = self.cases_of[dataset]
        change = self.rng.random()
        if change < 0.05:
            return np.vstack([usual[1:], self.make()])
        if change < 0.08:
            return np.array([self.make() for _ in range(N)])
        return usual

    def policy(self, dataset: str) -> fc.SitePolicy:
        """Return the site's policy, which names the data set."""
        known = [
            key_of(site).public_key for site in (*HONEST, OWN) if site != self.name
        ]
        record = self.folder / f"{self.name}.sums"
        return fc.SitePolicy(
            sum_with=known, min_sum_with=2, sum_record=record, sum_dataset=dataset
        )

    def answer(
        self, name: str, sent: Sent, dataset: str
    ) -> tuple[fc.Report, dict[str | None, np.ndarray]]:
        """Answer as the given name; return the report and the cases of each group."""
        cases = self.draw(dataset)
        labels = np.array(LABELS if self.rng.random() < 0.9 else LABELS[::-1])
        options: dict[str, Any] = {}
        if sent.plan.message.epsilon is not None:
            options = {
                "ledger": fc.Ledger(self.folder / f"{self.name}.ledger"),
                "dataset": "cases",
            }
        elif self.keeps_identifiers:
            options = {"identifiers": cases[:, 0].astype(int)}
        parts: dict[str | None, np.ndarray] = {None: cases}
        if sent.plan.is_grouped:
            options["groups"] = labels
            parts = {label: cases[labels == label] for label in "xy"}
        report = fc.report(
            sent.plan,
            sent.scores(cases),
            site=name,
            key=key_of(self.name),
            policy=self.policy(dataset),
            model=sent.model if sent.plan.terms.model is not None else None,
            received=sent.received,
            **options,
        )
        return report, parts


@dataclass
class Federation:
    """Honest sites, and what has left them.

    ``behind`` has the cases of each answer that was given first, and ``sums`` for each
    exact sum that can be read the cases of every honest site in it.
    """

    rng: random.Random
    sites: dict[str, Site]
    answers: dict[tuple[str, ...], str] = field(default_factory=dict)
    behind: dict[tuple[str, ...], dict[str | None, np.ndarray]] = field(
        default_factory=dict
    )
    sums: list[dict[str, np.ndarray]] = field(default_factory=list)

    def ask(
        self, owner: str, name: str, sent: Sent, dataset: str
    ) -> tuple[str, ...] | None:
        """Ask one honest site twice under a name; return what its answer is known by,
        if it answered.
        """
        known_by = None
        for _ in range(2):
            with contextlib.suppress(ValueError):
                report, parts = self.sites[owner].answer(name, sent, dataset)
                known_by = (owner, sent.plan.digest, sent.received, dataset)
                before = self.answers.setdefault(known_by, report.to_json())
                assert report.to_json() == before, (
                    "two answers of one site to one question"
                )
                self.behind.setdefault(known_by, parts)
        return known_by


def make_owners(rng: random.Random) -> dict[str, str]:
    """Return the names of a question, and whose key each has: honest sites, perhaps
    exchanged, and others.
    """
    owners = rng.sample(HONEST, rng.randint(1, len(HONEST)))
    owners += [OWN] * rng.randint(0, 1) + [INVENTED] * (rng.random() < 0.2)
    names = owners if rng.random() < 0.7 else rng.sample(owners, len(owners))
    return dict(zip(names, owners, strict=True))


def attack(seed: int) -> int:
    """Ask many questions, and combine what was answered."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as text:
        folder, sites = Path(text), {}
        for name in HONEST:
            fc.Ledger.create(folder / f"{name}.ledger").set_budget("cases", 3)
            sites[name] = Site(name, folder, rng, keeps_identifiers=rng.random() < 0.5)
        federation = Federation(rng, sites)
        usual = make_owners(rng)
        for _ in range(QUESTIONS):
            owners = usual if rng.random() < 0.75 else make_owners(rng)
            with contextlib.suppress(ValueError):  # not even a plan
                _ask_all(federation, owners, rng)
    _check_combinations(federation.sums)
    return QUESTIONS


def _ask_all(
    federation: Federation, owners: Mapping[str, str], rng: random.Random
) -> None:
    """Ask one question of all its sites; note the sums that can be read, and check that
    others cannot.
    """
    kind = rng.choice(("exact", "exact", "exact", "groups", "private"))
    sent = _make_question(kind, owners, rng)
    dataset = rng.choice(("2026", "2026", "2027"))
    honest = {name: owner for name, owner in owners.items() if owner in HONEST}
    victim = rng.choice([*honest, None, None])
    to_victim = (
        None
        if victim is None
        else _make_other(rng.choice(DIFFERENCES), sent, owners, rng)
    )
    keys = {}
    for name, owner in honest.items():
        is_victim = to_victim is not None and name == victim
        keys[name] = federation.ask(
            owner, name, to_victim if is_victim else sent, dataset
        )
    if None in keys.values():
        return
    if kind == "exact":
        is_read = _can_read(federation, sent, owners, keys, dataset)
        assert is_read == (to_victim is None or len(honest) == 1), (
            "masks are bound to what sites were sent"
        )
    if to_victim is not None or kind == "private":
        return
    behind = {
        honest[name]: federation.behind[key]
        for name, key in keys.items()
        if key is not None
    }
    groups = {group for parts in behind.values() for group in parts}
    federation.sums += [
        {owner: parts[group] for owner, parts in behind.items()} for group in groups
    ]


def _make_question(kind: str, owners: Mapping[str, str], rng: random.Random) -> Sent:
    """Return a question that is sent to all: a plan with a model, which is perturbed
    now and then.
    """
    model = {"scale": rng.choice((1.0, 1.0, 1 + 1e-12, 0.9))}
    options: dict[str, Any] = {
        "keys": {name: key_of(owner).public_key for name, owner in owners.items()},
        "confidence_level": 0.5,
        "masked": True,
        "terms": {"round": f"{rng.randrange(4):032x}"},
    }
    if rng.random() < 0.9:
        options["terms"]["model"] = model
    if kind == "private":
        options["privacy"] = fc.Privacy(1.0, GRID)
    else:
        options["curve"] = GRID
    if kind == "groups":
        sites = {
            label: rng.sample(list(owners), len(owners) - (rng.random() < 0.2))
            for label in "xy"
        }
        options["groups"] = {
            label: dict.fromkeys(own, N // 2) for label, own in sites.items()
        }
    elif rng.random() < 0.7:
        options["n_points"] = dict.fromkeys(owners, N)
    else:
        options["n_sites"] = list(owners)
    return Sent(fc.plan(**options), model, {"preset": "usual"})


def _make_other(
    difference: str, sent: Sent, owners: Mapping[str, str], rng: random.Random
) -> Sent:
    """Return what one site is sent instead: as the others, but for one thing."""
    if difference == "model":
        model = {"scale": 0.0}
        named = sent.plan.terms.model_copy(update={"model": model_digest(model)})
        is_named = (
            rng.random() < 0.5
        )  # else the site sees that the plan names another one
        plan = sent.plan.model_copy(update={"terms": named}) if is_named else sent.plan
        return replace(sent, plan=plan, model=model)
    if difference == "configuration":
        return replace(sent, configuration={"preset": "broken"})
    if difference == "sites" and not sent.plan.is_grouped:
        listed = {**owners, "another": INVENTED}
        keys = {name: key_of(owner).public_key for name, owner in listed.items()}
        options = {
            "n_points": dict.fromkeys(listed, N),
            "keys": keys,
            "curve": GRID,
            "masked": True,
        }
        terms = {"round": sent.plan.terms.round, "model": sent.model}
        return replace(sent, plan=fc.plan(**options, confidence_level=0.5, terms=terms))
    terms = sent.plan.terms.model_copy(update={"round": f"{rng.randrange(4, 9):032x}"})
    return replace(sent, plan=sent.plan.model_copy(update={"terms": terms}))


def _can_read(
    federation: Federation,
    sent: Sent,
    owners: Mapping[str, str],
    keys: Mapping[str, tuple[str, ...] | None],
    dataset: str,
) -> bool:
    """Return whether the coordinator, with the keys of his own sites, reads the sum of
    a question.
    """
    payloads: list[MaskedPayload] = []
    salt = mask_salt(sent.plan.digest, sent.received, dataset)
    for name, owner in owners.items():
        known_by = keys.get(name)
        if known_by is not None:
            payload = fc.Report.from_json(federation.answers[known_by]).payload
        else:
            others = other_keys(sum_keys(sent.plan, None), key_of(owner))
            payload = mask([0] * GRID.n_bins, key_of(owner), others, salt, 0)
        assert isinstance(payload, MaskedPayload)
        payloads.append(payload)
    sums = add_up(payloads)
    return max(map(abs, sums)) < UNREADABLE


def _check_combinations(sums: list[dict[str, np.ndarray]]) -> None:
    """Check that no linear combination of sums is about cases of one honest site
    alone.
    """
    places: dict[tuple[str, float], int] = {}
    for one in sums:
        for site, cases in one.items():
            for case in cases[:, 0].tolist():
                places.setdefault((site, case), len(places))
    rows = np.zeros((len(sums), len(places)))
    for row, one in zip(rows, sums, strict=True):
        for site, cases in one.items():
            for case in cases[:, 0].tolist():
                row[places[site, case]] += 1
    for site in HONEST:
        others = [place for (owner, _), place in places.items() if owner != site]
        assert not sums or np.linalg.matrix_rank(rows) == np.linalg.matrix_rank(
            rows[:, others]
        ), f"cases of {site} follow from sums"


SECTION = Section(
    "masks",
    "questions of a coordinator who owns a site, and tells each site something else",
    "one answer to each question, sums are read only if all were sent the same, and no"
    " combination of exact sums is about one honest site",
    attack,
    runs=500,
    quick=4,
)
