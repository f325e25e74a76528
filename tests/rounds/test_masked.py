"""Masks are bound to everything that a server sends to a site."""

import logging

import numpy as np
import pytest

import fedconformal as fc
from fedconformal import rounds
from fedconformal.protocol import model_digest
from fedconformal.protocol._masking import add_up

NAMES = ("north", "south", "west", "east", "centre")
GRID = fc.Bins.uniform(0, 1, 20)
N = 60
CASES = {name: np.random.default_rng(i).random(N) for i, name in enumerate(NAMES)}
MODEL, GARBAGE = {"scale": 1.0}, {"scale": 1e9}
LOG = logging.getLogger("site")


@pytest.fixture
def sites(tmp_path):
    """Sites that know each other's keys."""
    keys = {name: fc.SigningKey.new() for name in NAMES}
    made = {}
    for name in NAMES:
        others = [key.public_key for other, key in keys.items() if other != name]
        policy = fc.SitePolicy(sum_with=others, sum_record=tmp_path / name)
        made[name] = rounds.Site(name, key=keys[name], policy=policy)
    return made


def make_plan(sites, model=MODEL):
    keys = {name: site.key.public_key for name, site in sites.items()}
    terms = {} if model is None else {"model": model}
    sizes = dict.fromkeys(NAMES, N)
    return fc.plan(n_points=sizes, keys=keys, masked=True, curve=GRID, terms=terms)


def answer(site, plan, model, **options):
    """Answer as a site does that scores its cases by the model it was sent."""

    def cases(plan):
        return np.minimum(CASES[site.name] * model["scale"], 1.0)

    packed = rounds.pack_plan(plan)
    digest = model_digest(model)
    return rounds.CALIBRATE.answer(
        packed, cases, lambda plan: site, model=digest, log=LOG, **options
    )


def read_sum(texts):
    """Return the sum of what was sent, or None if it cannot be read."""
    if not all(isinstance(text, str) for text in texts):
        return None
    sums = add_up(rounds.unpack_report(text).payload for text in texts)
    return sums if max(map(abs, sums)) <= len(NAMES) * N else None


def test_the_sum_can_be_read_if_all_were_sent_the_same(sites):
    plan = make_plan(sites)
    texts = [answer(site, plan, MODEL, settings={"a": 1}) for site in sites.values()]
    assert sum(read_sum(texts)) == len(NAMES) * N


def test_garbage_for_the_others_reveals_no_site(sites):
    """Their scores would all lie in the last cell, and the sum show the victim's."""
    plan, other = make_plan(sites), make_plan(sites, GARBAGE)
    texts = []
    for name, site in sites.items():
        is_victim = name == "north"
        texts.append(answer(site, plan if is_victim else other, MODEL))
        assert is_victim or texts[-1] == rounds.Failure.REPORT
    texts = [
        answer(site, plan, MODEL if name == "north" else GARBAGE)
        for name, site in sites.items()
    ]
    assert texts[1:] == [rounds.Failure.REPORT] * 4
    texts = [
        answer(
            site,
            plan if name == "north" else other,
            MODEL if name == "north" else GARBAGE,
        )
        for name, site in sites.items()
    ]
    assert all(isinstance(text, str) for text in texts)
    assert read_sum(texts) is None


@pytest.mark.parametrize(
    "settings", [{"preset": "b"}, {"preset": "a", "more": 1}, {}], ids=str
)
def test_another_configuration_for_one_site_leaves_no_sum(sites, settings):
    plan = make_plan(sites)
    texts = [
        answer(
            site,
            plan,
            MODEL,
            settings=settings if name == "north" else {"preset": "a"},
        )
        for name, site in sites.items()
    ]
    assert all(isinstance(text, str) for text in texts)
    assert read_sum(texts) is None


def test_a_plan_that_names_no_model_is_not_answered(sites):
    plan = make_plan(sites, None)
    texts = {answer(site, plan, MODEL) for site in sites.values()}
    assert texts == {rounds.Failure.POLICY}


def test_identifiers_come_with_the_cases(sites):
    """Under another model nothing else shows that the cases are the same."""
    site = sites["north"]
    identifiers = [f"patient {i}" for i in range(N)]

    def cases(plan):
        return {"scores": CASES["north"], "identifiers": identifiers}

    def ask(model):
        packed = rounds.pack_plan(make_plan(sites, model))
        digest = model_digest(model)
        return rounds.CALIBRATE.answer(
            packed, cases, lambda plan: site, model=digest, log=LOG
        )

    assert isinstance(ask(MODEL), str)
    assert isinstance(ask(GARBAGE), str)
    identifiers[0] = "a new patient"
    assert ask({"scale": 2.0}) == rounds.Failure.POLICY
