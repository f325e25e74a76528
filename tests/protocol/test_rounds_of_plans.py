"""Which round, which model, until when: what keeps an old answer out of a new
question.
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.protocol import model_digest

SITES = {"A": 30, "B": 40, "C": 50}


@pytest.fixture(scope="module")
def keys():
    return {site: fc.SigningKey.new() for site in SITES}


def plan_for(keys=None, **terms):
    listed = (
        None if keys is None else {site: key.public_key for site, key in keys.items()}
    )
    return fc.plan(n_points=SITES, confidence_level=0.8, keys=listed, terms=terms)


def answers(plan, keys=None, **options):
    return [
        fc.report(
            plan,
            np.arange(n),
            site=site,
            key=None if keys is None else keys[site],
            **options,
        )
        for site, n in SITES.items()
    ]


class TestRound:
    def test_an_id_of_ones_own_gives_the_same_plan(self, keys):
        assert (
            plan_for(keys, round="2030-01").digest
            == plan_for(keys, round="2030-01").digest
        )
        assert plan_for(round="2030-01").digest != plan_for(round="2030-02").digest
        assert plan_for(keys).terms.round != plan_for(keys).terms.round

    @pytest.mark.parametrize("wrong", ["", "a b", "x" * 65])
    def test_odd_ids_are_refused(self, wrong):
        with pytest.raises(ValueError, match="round"):
            plan_for(round=wrong)


class TestModel:
    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "model.bin"
        path.write_bytes(b"weights")
        return path

    def test_a_plan_holds_the_digest_of_the_file(self, file):
        assert plan_for(model=file).terms.model == model_digest(file)
        assert plan_for(model=model_digest(file)) == plan_for(model=file)
        assert plan_for(model=file).digest != plan_for().digest

    def test_sites_compare_theirs(self, file, tmp_path):
        other = tmp_path / "other.bin"
        other.write_bytes(b"other weights")
        plan = plan_for(model=file)
        assert (
            answers(plan, model=file)
            == answers(plan, model=model_digest(file))
            == answers(plan)
        )
        with pytest.raises(ValueError, match="this plan is for another model"):
            answers(plan, model=other)
        with pytest.raises(
            ValueError, match="model was given, but the plan names none"
        ):
            answers(plan_for(), model=file)


class TestExpiry:
    LONG_AGO = "2001-01-01T00:00:00Z"

    def test_neither_site_nor_server_honours_it_any_longer(self):
        plan, expired = plan_for(), plan_for(expires=self.LONG_AGO)
        assert expired.terms.has_expired()
        with pytest.raises(ValueError, match="expired at 2001-01-01T00:00:00Z"):
            answers(expired)
        sent = [
            report.model_copy(update={"plan": expired.digest})
            for report in answers(plan)
        ]
        with pytest.raises(ValueError, match="expired at 2001-01-01T00:00:00Z"):
            fc.calibrate(expired, sent)

    def test_to_the_second(self):
        terms = plan_for(expires="2030-06-01T12:00:00Z").terms
        noon = datetime(2030, 6, 1, 12, tzinfo=UTC)
        assert terms.has_expired(noon)
        assert not terms.has_expired(noon - timedelta(seconds=1))

    def test_a_datetime_says_its_zone(self):
        there = datetime.fromisoformat("2030-06-01T14:00:00+02:00")
        assert plan_for(expires=there).terms.expires == "2030-06-01T12:00:00Z"
        with pytest.raises(ValueError, match="expires must have a time zone"):
            plan_for(expires=datetime(2030, 6, 1))

    @pytest.mark.parametrize(
        "wrong",
        ["tomorrow", "2030-13-01T00:00:00Z", "2030-01-01", "2030-01-01T00:00:00"],
    )
    def test_anything_else_is_refused(self, wrong):
        with pytest.raises(ValueError, match="expires"):
            plan_for(expires=wrong)


def test_the_digest_depends_on_every_name_type_shape_and_value():
    a = np.arange(6.0)
    different = [
        {"a": a},
        {"b": a},
        {"a": a.reshape(2, 3)},
        {"a": a.astype("f4")},
        {"a": a + 1e-12},
        {"a": [a]},
        {"a": a.tobytes()},
        {"a": {"a": a}},
        {},
    ]
    assert len({model_digest(model) for model in different}) == len(different)
    assert model_digest({"a": a, "b": 1}) == model_digest({"b": 1, "a": a[::1].copy()})
    with pytest.raises(
        ValueError, match="model must hold arrays, numbers and texts, got object"
    ):
        model_digest({"a": object()})
