"""Masked checks: counts of new cases of which nothing but the sum over all sites can be read."""

import base64
import hashlib

import numpy as np
import pytest

import fedconformal as fc
from fedconformal import monitoring, rounds
from fedconformal.documents import Check, CheckQuestion, DocumentError, SiteKey
from fedconformal.protocol._masking import mask_numbers

NAMES = ("north", "south", "west", "east")
KEYS = {name: fc.SigningKey.new() for name in NAMES}
PUBLIC = {name: key.public_key for name, key in KEYS.items()}
RNG = np.random.default_rng(0)
OLD = {name: RNG.random(100) for name in NAMES}
NEW = {name: RNG.random(40 + 10 * place) for place, name in enumerate(NAMES)}


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def calibrate(**options):
    plan = fc.plan(**{"n_points": dict.fromkeys(NAMES, 100), "keys": PUBLIC, **options})
    return fc.calibrate(plan, [fc.report(plan, OLD[name], site=name, key=KEYS[name]) for name in NAMES])


@pytest.fixture(scope="module")
def calibration():
    return calibrate(confidence_level=[0.8, 0.9])


def policy_of(name, **options):
    return fc.SitePolicy(sum_with=[key for other, key in PUBLIC.items() if other != name], **options)


def answer(calibration, name, **options):
    given = {"scores": NEW[name], "key": KEYS[name], "masked": True, "policy": policy_of(name), **options}
    return monitoring.answer(calibration, site=name, **given)


def pooled(calibration):
    """The counts of all sites, added up without masks."""
    plain = [monitoring.answer(calibration, NEW[name], site=name) for name in NAMES]
    return sum(check.n for check in plain), np.sum([check.covered for check in plain], axis=0).tolist()


class TestSum:
    def test_compare_has_the_sum_of_all_sites_and_nothing_else(self, calibration):
        checks = [answer(calibration, name) for name in NAMES]
        assert all((check.n, check.covered) == (None, None) for check in checks)
        found = monitoring.compare(calibration, checks[::-1])
        n, covered = pooled(calibration)
        assert [(row.site, row.check.n) for row in found.rows] == [("all sites together", n)] * 2
        assert [row.check.covered for row in found.rows] == covered

    def test_masks_are_made_under_a_digest_of_the_question(self, calibration):
        public = ",".join(f'"{key}"' for key in sorted(PUBLIC.values()))
        question = f'["check","{calibration.digest}",null,"2027-01",[{public}]]'
        check = answer(calibration, "north", period="2027-01")
        digest = f"sha256:{hashlib.sha256(question.encode()).hexdigest()}"
        plain = monitoring.answer(calibration, NEW["north"], site="north")
        others = sorted(PUBLIC[name] for name in NAMES[1:])
        again = mask_numbers([plain.n, *plain.covered], KEYS["north"], others, digest)
        assert again.values == check.masked

    def test_a_check_travels_as_a_file(self, calibration):
        check = answer(calibration, "north")
        assert Check.from_json(check.to_json()) == check
        assert repr(check) == "<Check: masked counts, site 'north'>"
        with pytest.raises(ValueError, match="only the sum over all sites can be read"):
            _ = check.counts

    def test_watch_has_one_row_for_each_level_and_that_of_pooled_counts(self, calibration):
        periods = ("2027-01", "2027-02", "2027-03")
        checks = [
            answer(calibration, name, period=period, scores=NEW[name] + place * 1e-9)
            for place, period in enumerate(periods)
            for name in NAMES
        ]
        found = monitoring.watch(calibration, checks)
        n, covered = pooled(calibration)
        assert [row.name for row in found.rows] == ["all sites together"] * 2
        assert [(row.n, row.covered) for row in found.rows] == [(3 * n, 3 * each) for each in covered]
        assert found.n == 3 * n
        assert found.rows[0].lower <= found.rows[0].coverage
        assert "single site" not in found.sentence()

    def test_the_owner_reads_what_leaves(self, calibration):
        prepared = monitoring.prepare_answer(
            calibration, NEW["north"], site="north", key=KEYS["north"], masked=True, policy=policy_of("north")
        )
        assert prepared.sentence == (
            "This answer gives 2 numbers about your 40 new cases: how many of them are covered, exactly, "
            "masked so that only the sum over 4 sites can be read."
        )

    def test_a_recorded_sum_counts_as_one_number(self, calibration, tmp_path):
        ledger = fc.Ledger.create(tmp_path / "ledger")
        ledger.set_budget("new", 1)
        answer(
            calibration, "north", ledger=ledger, dataset="new", policy=policy_of("north", private_only=False)
        )
        assert [entry.numbers for entry in ledger.entries() if entry.kind == "exact"] == [1]


class TestGuard:
    def test_one_answer_for_each_period_whatever_the_data(self, calibration):
        first = answer(calibration, "north", period="2027-01")
        again = answer(calibration, "north", period="2027-01", scores=np.zeros(40))
        assert again.to_json() == first.to_json()
        later = answer(calibration, "north", period="2027-02", scores=RNG.random(40))
        assert later.masked != first.masked

    def test_unknown_sites_and_too_few_others_are_refused(self, calibration):
        with pytest.raises(fc.PolicyError, match="'east' with the key"):
            answer(calibration, "north", policy=fc.SitePolicy(sum_with=[PUBLIC["south"], PUBLIC["west"]]))
        with pytest.raises(fc.PolicyError, match="min_sum_with = 3 would allow"):
            answer(calibration, "north", policy=policy_of("north", min_sum_with=4))

    def test_thresholds_that_a_coordinator_chose_give_the_recorded_answer(self, calibration):
        """Two questions with one digest and other thresholds: the second answer would reveal a difference."""
        plan, keys = calibration.plan, calibration.plan.keys
        questions = [
            CheckQuestion.of(calibration, None, keys).model_copy(update={"thresholds": thresholds})
            for thresholds in ((0.5, 0.9), (0.6, 0.9))
        ]
        first, second = (answer(question, "north") for question in questions)
        assert first.to_json() == second.to_json()
        assert plan.digest == questions[0].plan_digest

    def test_no_sum_over_other_sites_than_before(self, calibration):
        answer(calibration, "north")
        fewer = {name: PUBLIC[name] for name in NAMES[:3]}
        other = fc.plan(n_points=dict.fromkeys(fewer, 100), keys=fewer)
        reports = [fc.report(other, OLD[name], site=name, key=KEYS[name]) for name in fewer]
        with pytest.raises(fc.PolicyError, match="over other sites"):
            answer(fc.calibrate(other, reports), "north", policy=policy_of("north", min_sum_with=2))

    @pytest.mark.parametrize(
        "names",
        [
            {"north": "north", "x1": "north", "x2": "north", "x3": "north"},
            {"north": "north", "south": "south", "x1": "south", "x2": "south"},
        ],
    )
    def test_one_key_under_several_names_makes_no_sum(self, calibration, names):
        """Masks with the own key would be left out, and two sites would pass for four."""
        keys = tuple(SiteKey(site=name, public_key=PUBLIC[owner]) for name, owner in names.items())
        question = CheckQuestion.of(calibration, None, keys)
        with pytest.raises(ValueError, match="a key of its own for each site"):
            answer(question, "north")
        plan = fc.plan(n_points=dict.fromkeys(names, 100), keys={key.site: key.public_key for key in keys})
        reports = [fc.report(plan, OLD[owner], site=name, key=KEYS[owner]) for name, owner in names.items()]
        with pytest.raises(ValueError, match="a key of its own for each site"):
            answer(fc.calibrate(plan, reports), "north")

    def test_periods_are_of_other_cases(self, calibration):
        answer(calibration, "north", period="2027-01")
        for scores in (NEW["north"], np.append(NEW["north"], 0.5)):
            with pytest.raises(fc.PolicyError, match="nearly the same cases"):
                answer(calibration, "north", period="2027-02", scores=scores)

    def test_another_question_about_a_period_is_of_the_same_cases(self, calibration):
        other = calibrate(confidence_level=0.85)
        answer(calibration, "north", period="2027-01")
        with pytest.raises(fc.PolicyError, match="of other cases"):
            answer(other, "north", period="2027-01", scores=np.append(NEW["north"], 0.5))
        assert answer(other, "north", period="2027-01")

    def test_a_plain_question_after_a_masked_one(self, calibration):
        policy = policy_of("north", masked_only=True)
        answer(calibration, "north", policy=policy)
        with pytest.raises(fc.PolicyError, match="masked_only = true"):
            monitoring.answer(calibration, NEW["north"], site="north", policy=policy)

    def test_the_owner_reads_that_recorded_counts_leave(self, calibration):
        answer(calibration, "north")
        options = {"site": "north", "key": KEYS["north"], "masked": True, "policy": policy_of("north")}
        prepared = monitoring.prepare_answer(calibration, np.zeros(90), **options)
        assert prepared.sentence == (
            "This calibration was checked before for these sites and this period: the same masked counts "
            "leave, whatever your cases are now."
        )

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"key": None}, "key must be the private key"),
            ({"key": KEYS["south"]}, "key must be the private key"),
            ({"by": {"sex": ["man", "woman"] * 20}}, "masked goes without epsilon and without groups"),
        ],
    )
    def test_what_cannot_be_masked(self, calibration, options, reason):
        with pytest.raises(ValueError, match=reason):
            answer(calibration, "north", **options)

    def test_no_noise_in_a_masked_check(self, calibration, tmp_path):
        ledger = fc.Ledger.create(tmp_path / "ledger")
        ledger.set_budget("new", 1)
        with pytest.raises(ValueError, match="masked goes without epsilon"):
            answer(calibration, "north", epsilon=1.0, ledger=ledger, dataset="new")
        assert ledger.spent("new") == 0

    def test_sums_need_keys_and_a_promise_about_all_sites(self):
        with pytest.raises(ValueError, match="promise 'each-site' is not about these"):
            answer(calibrate(promise="each-site"), "north")
        open_plan = fc.conformalize({name: OLD[name] for name in NAMES})
        with pytest.raises(ValueError, match="a plan that lists the keys"):
            answer(open_plan, "north")


class TestServer:
    @pytest.fixture
    def checks(self, calibration):
        return [answer(calibration, name) for name in NAMES]

    def refuse(self, calibration, checks, reason):
        for assess in (monitoring.compare, monitoring.watch):
            with pytest.raises(ValueError, match=reason):
                assess(calibration, checks)

    def test_no_sum_without_everybody(self, calibration, checks):
        self.refuse(calibration, checks[:3], "'east' did not answer")
        self.refuse(calibration, [*checks, checks[0]], "north: answered 2 times")
        plain = monitoring.answer(calibration, NEW["north"], site="north")
        self.refuse(calibration, [plain, *checks[1:]], "masked and other checks")

    def test_a_flipped_bit_is_found_anywhere(self, calibration, checks):
        raw = base64.b64decode(checks[0].masked)
        for bit in range(8 * len(raw)):
            changed = bytearray(raw)
            changed[bit // 8] ^= 1 << bit % 8
            masked = base64.b64encode(changed).decode()
            forged = checks[0].model_copy(update={"masked": masked})
            self.refuse(calibration, [forged, *checks[1:]], "north: is not signed with the key")

    def test_a_site_that_signs_nonsense(self, calibration, checks):
        others = [answer(calibration, name, period="2027-01", scores=RNG.random(40)) for name in NAMES[1:]]
        wrong = KEYS["north"].sign(checks[0].model_copy(update={"period": "2027-01"}))
        self.refuse(calibration, [wrong, *others], "do not add up to counts")
        short = base64.b64encode(bytes(16)).decode()
        wrong = KEYS["north"].sign(checks[0].model_copy(update={"masked": short}))
        self.refuse(calibration, [wrong, *checks[1:]], "2 masked numbers instead of 3")
        other = KEYS["north"].sign(checks[0].model_copy(update={"group": "child"}))
        self.refuse(calibration, [other, *checks[1:]], "another calibration or group")

    def test_a_document_has_masked_numbers_or_others(self, checks):
        for update in ({"n": 3, "covered": (1, 2)}, {"masked": None}):
            with pytest.raises((DocumentError, ValueError), match=r"masked|null"):
                Check.from_json(checks[0].model_copy(update=update).to_json())


class TestRound:
    def test_sites_are_asked_over_an_engine(self, calibration):
        question = rounds.unpack_calibration(
            rounds.pack_calibration(calibration, period="2027-01", keys=monitoring.check_keys(calibration))
        )
        assert question.keys == calibration.plan.keys
        log = __import__("logging").getLogger("test")
        nodes = dict(enumerate(NAMES))
        collection = rounds.CheckCollection(
            calibration, nodes, period="2027-01", masked=True, engine="a test", log=log
        )
        for place, name in nodes.items():
            site = rounds.Site(name, key=KEYS[name], policy=policy_of(name))
            text = rounds.CHECK.answer(
                collection.packed, lambda asked, own=NEW[name]: own, lambda asked, own=site: own, log=log
            )
            collection.receive(place, text)
        assert collection.assess(timeout=1).rows[0].check.n == pooled(calibration)[0]

    def test_a_signed_calibration_needs_the_coordinators_key(self, calibration):
        coordinator = fc.SigningKey.new()
        signed = coordinator.sign(calibration)
        keys = monitoring.check_keys(signed)
        with pytest.raises(ValueError, match="masked needs the coordinator's key"):
            rounds.pack_calibration(signed, keys=keys)
        question = rounds.unpack_calibration(rounds.pack_calibration(signed, key=coordinator, keys=keys))
        assert question.keys == keys

    def test_who_poses_as_a_site_does_not_spoil_the_sum(self, calibration):
        log = __import__("logging").getLogger("test")
        collection = rounds.CheckCollection(
            calibration, {0: "", 1: ""}, masked=True, engine="a test", log=log
        )
        mine = answer(calibration, "north")
        collection.receive(0, fc.SigningKey.new().sign(mine).to_json())
        collection.receive(1, mine.to_json())
        assert "not signed with the key" in collection.refused[0].reason
        assert [check.site for check in collection.answers] == ["north"]

    def test_plain_counts_are_no_answer_to_a_masked_question(self, calibration):
        log = __import__("logging").getLogger("test")
        collection = rounds.CheckCollection(calibration, {0: "north"}, masked=True, engine="a test", log=log)
        collection.receive(0, monitoring.answer(calibration, NEW["north"], site="north").to_json())
        assert "not masked" in collection.refused[0].reason
