"""Limits on what a site discloses, regardless of the plan."""

import os
from functools import partial

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.protocol import SitePolicy, prepare

SCORES = np.arange(120.0)


def plan_for(n=120, **options):
    return fc.plan(n_sites=4, n_points=n, **options)


@pytest.mark.parametrize(("n", "most"), [(1, 10), (219, 10), (220, 11), (10**9, 100)])
def test_the_default_is_ten_or_one_in_twenty_and_at_most_a_hundred(n, most):
    assert SitePolicy().numbers_of(n) == most


def test_as_many_numbers_as_the_policy_says_and_not_one_more():
    levels = [0.5 + i / 25 for i in range(11)]
    assert fc.report(plan_for(confidence_level=levels[:10]), SCORES, site="A").n == 120
    asked = plan_for(confidence_level=levels)
    with pytest.raises(
        fc.PolicyError,
        match=r"11 of your 120 scores would leave, .* max_numbers = 11 would allow",
    ):
        fc.report(asked, SCORES, site="A")
    assert (
        fc.report(asked, SCORES, site="A", policy=SitePolicy(max_numbers=11)).n == 120
    )


def test_a_site_of_one_score_may_answer():
    asked = fc.plan(n_sites=40, n_points=1)
    assert fc.report(asked, [1.5], site="A").payload.levels[0].values == (1.5,)


SIZES = {"few": {"A": 4, "B": 5, "C": 5}, "many": {"A": 60, "B": 60, "C": 60}}
LABELS = ["few"] * 4 + ["many"] * 60


class TestGroups:
    """Nothing is sent for a group of a few."""

    def test_a_plan_counts_such_sites_as_absent(self):
        asked = fc.plan(groups=SIZES, confidence_level=0.6)
        assert asked.by_group["few"].site_names == ("B", "C")

    @pytest.mark.parametrize("groups", [SIZES, dict.fromkeys(SIZES)])
    def test_and_sites_send_nothing_for_them(self, groups):
        asked = fc.plan(groups=groups, confidence_level=0.6)
        sent = fc.report(asked, range(64), site="A", groups=LABELS)
        assert [part.group for part in sent.parts] == ["many"]
        prepared = prepare(asked, range(64), site="A", groups=LABELS)
        assert prepared.held_back == ("few",)
        assert "Nothing is sent for 'few'" in prepared.sentence

    def test_unless_their_policy_says_so(self):
        asked = fc.plan(groups=dict.fromkeys(SIZES), confidence_level=0.6)
        sent = fc.report(
            asked, range(64), site="A", groups=LABELS, policy=SitePolicy(min_group=4)
        )
        assert [part.group for part in sent.parts] == ["few", "many"]

    def test_a_site_with_few_of_everything_sends_nothing(self):
        asked = fc.plan(groups={"a": None, "b": None})
        with pytest.raises(
            ValueError,
            match=(
                "nothing is sent: this site has fewer than 5 cases of every group;"
                " min_group = 2"
            ),
        ):
            fc.report(asked, range(4), site="A", groups=["a", "a", "b", "b"])


class TestScoresAndPromises:
    @pytest.mark.parametrize(
        ("policy", "words"),
        [
            (
                SitePolicy(scores=["lac"]),
                "uses the score 'absolute', .* scores = \\['lac', 'absolute'\\] would",
            ),
            (
                SitePolicy(promises=["each-site"]),
                (
                    "makes the promise 'population', .* promises = \\['each-site',"
                    " 'population'\\]"
                ),
            ),
        ],
    )
    def test_only_those_of_the_policy(self, policy, words):
        with pytest.raises(fc.PolicyError, match=words):
            fc.report(plan_for(score="absolute"), SCORES, site="A", policy=policy)

    def test_a_plan_that_names_no_score_is_none_of_them(self):
        with pytest.raises(fc.PolicyError, match="names none"):
            fc.report(
                plan_for(), SCORES, site="A", policy=SitePolicy(scores=["absolute"])
            )


class TestCoordinator:
    def test_only_plans_signed_by_the_coordinator(self):
        ours, other = fc.SigningKey.new(), fc.SigningKey.new()
        policy, asked = SitePolicy(coordinator=ours.public_key), plan_for()
        assert fc.report(ours.sign(asked), SCORES, site="A", policy=policy).n == 120
        signed = ours.sign(asked)
        moved = plan_for(n=121).model_copy(
            update={"signer": signed.signer, "signature": signed.signature}
        )
        for wrong in (asked, other.sign(asked)):
            with pytest.raises(fc.PolicyError, match="not signed by the coordinator"):
                fc.report(wrong, SCORES, site="A", policy=policy)
        with pytest.raises(
            ValueError,
            match="the signature of this plan is not that of the key it names",
        ):
            fc.report(moved, SCORES, site="A")


@pytest.fixture
def book(tmp_path):
    ledger = fc.Ledger.create(tmp_path / "ledger")
    ledger.set_budget("D", 3)
    return ledger


class TestPrivacy:
    @pytest.fixture(scope="class")
    @classmethod
    def private(cls):
        return fc.plan(
            n_sites=4,
            n_points=2000,
            privacy=fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 50)),
        )

    def test_a_ledger_with_a_plan_that_is_not_private_is_an_error(self, book):
        for account in (
            {"ledger": book},
            {"dataset": "D"},
            {"ledger": book, "dataset": "D"},
        ):
            with pytest.raises(
                fc.PolicyError,
                match="exact numbers would leave, but a ledger was given",
            ):
                fc.report(plan_for(), SCORES, site="A", **account)
        assert [entry.kind for entry in book.entries()] == ["budget"]

    def test_unless_the_policy_allows_exact_answers_which_are_then_recorded(self, book):
        policy, asked = SitePolicy(private_only=False, max_answers=2), plan_for()
        sent = fc.report(
            asked, SCORES, site="A", ledger=book, dataset="D", policy=policy
        )
        assert sent == fc.report(asked, SCORES, site="A")
        assert book.exact_answers("D") == 1
        assert book.spent("D") == 0
        fc.report(asked, SCORES, site="A", ledger=book, dataset="D", policy=policy)
        assert book.exact_answers("D") == 1

    def test_private_only(self, book, private):
        policy = SitePolicy(private_only=True)
        with pytest.raises(fc.PolicyError, match="private_only = true: nothing leaves"):
            fc.report(plan_for(), SCORES, site="A", policy=policy)
        scores = np.linspace(0, 1, 2000)
        assert (
            fc.report(
                private, scores, site="A", ledger=book, dataset="D", policy=policy
            ).n
            == 2000
        )

    def test_the_largest_epsilon_of_one_answer(self, book, private):
        scores, account = np.linspace(0, 1, 2000), {"ledger": book, "dataset": "D"}
        with pytest.raises(
            fc.PolicyError,
            match=r"epsilon 2, .* allows 1.5: max_epsilon = 2 would allow",
        ):
            fc.report(
                private, scores, site="A", policy=SitePolicy(max_epsilon=1.5), **account
            )
        assert book.spent("D") == 0
        fc.report(
            private, scores, site="A", policy=SitePolicy(max_epsilon=2), **account
        )
        assert book.spent("D") == 2

    def test_what_it_costs_is_said_before_it_is_charged(self, book, private):
        scores, account = np.linspace(0, 1, 2000), {"ledger": book, "dataset": "D"}
        prepared = prepare(private, scores, site="A", **account)
        assert (
            prepared.sentence
            == "This plan asks for 50 counts of your 2,000 scores, with noise of"
            " epsilon 2, and for their number. It costs epsilon 2 of the 3 that are"
            " left."
        )
        assert book.spent("D") == 0
        first = prepared.report()
        again = prepare(private, scores, site="A", **account)
        assert "costs nothing" in again.sentence
        assert again.report() == first
        assert book.spent("D") == 2


class TestCurves:
    """Exact counts are all scores up to the width of a cell: with noise, or where
    allowed.
    """

    GRID = fc.Bins.uniform(0, 120, 12)
    PLAIN = SitePolicy(curves="plain")

    def test_exact_ones_do_not_leave_by_default(self):
        for asked in (plan_for(curve=self.GRID), fc.plan(curve=self.GRID)):
            with pytest.raises(
                fc.PolicyError,
                match=r'exact counts of all scores.* curves = "plain" would allow',
            ):
                fc.report(asked, SCORES, site="A")
            with pytest.raises(fc.PolicyError, match="private_only = true"):
                fc.report(
                    asked,
                    SCORES,
                    site="A",
                    policy=SitePolicy(curves="plain", private_only=True),
                )
            assert (
                fc.report(asked, SCORES + 1, site="A", policy=self.PLAIN).payload.counts
                == (10,) * 12
            )

    def test_small_counts_are_rounded_down_which_raises_the_threshold(self):
        asked = plan_for(curve=self.GRID, confidence_level=0.8)
        scores = np.repeat([5.0, 95.0, 105.0], [95, 4, 21])
        policies = (self.PLAIN, SitePolicy(curves="plain", round_down_to=5))
        sent = [
            [fc.report(asked, scores, site=site, policy=policy) for site in "ABCD"]
            for policy in policies
        ]
        assert [reports[0].payload.counts[-3:] for reports in sent] == [
            (4, 21, 0),
            (0, 21, 0),
        ]
        assert [fc.calibrate(asked, reports).threshold for reports in sent] == [
            100,
            110,
        ]

    def test_noisy_ones_leave_and_are_not_rounded(self, book):
        asked = plan_for(privacy=fc.Privacy(2.0, self.GRID))
        policy = SitePolicy(private_only=True, max_numbers=0, round_down_to=10**6)
        sent = fc.report(
            asked, SCORES, site="A", ledger=book, dataset="D", policy=policy
        )
        assert any(sent.payload.counts)
        assert book.spent("D") == 2

    def test_exact_ones_are_counted_where_there_is_a_ledger(self, book):
        policy = SitePolicy(curves="plain", private_only=False, max_answers=1)
        account = {"ledger": book, "dataset": "D", "policy": policy}
        fc.report(plan_for(curve=self.GRID), SCORES, site="A", **account)
        (entry,) = [entry for entry in book.entries() if entry.kind == "exact"]
        assert entry.numbers == 12
        with pytest.raises(ValueError, match="1 exact answer"):
            fc.report(
                plan_for(curve=self.GRID, confidence_level=0.8),
                SCORES,
                site="A",
                **account,
            )


class TestFiles:
    def test_what_a_file_says_holds_and_the_rest_has_its_default(self, tmp_path):
        file = tmp_path / "site.toml"
        file.write_text(
            'max_numbers = 3\nprivate_only = true\nscores = ["lac", "aps"]\nmax_epsilon'
            " = 0.5\n"
        )
        assert SitePolicy.read(file) == SitePolicy(
            max_numbers=3, private_only=True, scores=("lac", "aps"), max_epsilon=0.5
        )
        file.write_text("")
        assert SitePolicy.read(file) == SitePolicy()

    @pytest.mark.skipif(os.name != "posix", reason="other systems have no modes")
    def test_a_secret_that_others_may_read_is_said(self, tmp_path, recwarn):
        file = tmp_path / "site.toml"
        for text, mode, n_warnings in (
            ("", 0o644, 0),
            ("secret", 0o600, 0),
            ("secret", 0o640, 1),
        ):
            file.write_text(text and 'secret = "a secret of sixteen"')
            file.chmod(mode)
            SitePolicy.read(file)
            said = [str(warning.message) for warning in recwarn]
            assert (
                said
                == [
                    f"{file}: others may read this policy's secret; chmod 600 keeps it"
                    " yours"
                ]
                * n_warnings
            )

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("max_number = 3", "'max_number' is none of max_numbers, max_answers"),
            ("max_numbers = 2.5", "max_numbers must be a whole number"),
            ("private_only = 1", "private_only must be true, false or left out"),
            ("min_group = 0", "min_group must be"),
            ('curves = "all"', "curves must be one of 'private', 'plain'"),
            ("round_down_to = -1", "round_down_to must be"),
            ('scores = "lac"', "scores must be a list of names"),
            ('max_epsilon = "1"', "max_epsilon must be a number"),
            ('coordinator = "me"', "coordinator must be a public key"),
            ("max_numbers = ", "not a policy"),
        ],
    )
    def test_mistakes_are_one_line_with_the_file(self, tmp_path, text, words):
        file = tmp_path / "site.toml"
        file.write_text(text)
        with pytest.raises(ValueError, match=words) as error:
            SitePolicy.read(file)
        assert str(error.value).startswith(f"{file}: not a policy: ")
        assert "\n" not in str(error.value)


def test_only_a_policy_is_one():
    with pytest.raises(TypeError, match="policy must be a SitePolicy"):
        fc.report(plan_for(), SCORES, site="A", policy={"max_numbers": 3})


class TestLifeOfADataSet:
    """What leaves is added up over all exact answers, not only in each."""

    def ask(self, book, number, policy, numbers=3, dataset="D"):
        asked = plan_for(numbers=numbers, confidence_level=0.5 + number / 100)
        return fc.report(
            asked, SCORES, site="A", ledger=book, dataset=dataset, policy=policy
        )

    def test_one_in_ten_scores_and_at_least_twenty(self, book):
        policy = SitePolicy(private_only=False)
        for number in range(6):
            self.ask(book, number, policy)
        before = book.path.read_bytes()
        words = (
            r"18 exact numbers of data set 'D' left before and 3 more would leave, and"
            r" the site's policy "
            r"allows 20 over its life: max_disclosed = 21 would allow it"
        )
        with pytest.raises(fc.PolicyError, match=words):
            self.ask(book, 6, policy)
        assert book.path.read_bytes() == before
        self.ask(book, 0, policy)  # the same answer again is not counted
        self.ask(book, 7, policy, numbers=2)
        self.ask(book, 6, SitePolicy(private_only=False, max_disclosed=23))
        SitePolicy().check_life("E", 1, 1000, 5, 99)
        with pytest.raises(fc.PolicyError, match="allows 100 over its life"):
            SitePolicy().check_life("E", 1, 1000, 5, 100)

    def test_no_site_gives_all_its_scores_away(self, book):
        """Twenty answers of one in twenty scores each were all of them."""
        policy, sent = SitePolicy(private_only=False), set()
        scores = np.arange(400.0)
        for number in range(10):
            levels = [(40 * number + i) / 401 for i in range(2, 40, 4)]
            asked = fc.plan(
                n_sites=1, n_points=400, confidence_level=levels, criterion="marginal"
            )
            try:
                answer = fc.report(
                    asked, scores, site="A", ledger=book, dataset="D", policy=policy
                )
            except fc.PolicyError:
                continue
            sent |= {value for level in answer.payload.levels for value in level.values}
        assert len(sent) == 40

    def test_exact_counts_of_a_check_are_numbers_too(self, book):
        reports = [fc.report(plan_for(), SCORES, site=site) for site in "ABCD"]
        calibration = fc.calibrate(plan_for(), reports)
        for most in (0, 1):
            policy = SitePolicy(private_only=False, max_disclosed=most)
            call = partial(
                fc.monitoring.answer,
                calibration,
                SCORES + 0.5,
                site="A",
                ledger=book,
                dataset="new",
                policy=policy,
            )
            if most:
                assert call().n == 120
            else:
                with pytest.raises(
                    fc.PolicyError, match="max_disclosed = 1 would allow"
                ):
                    call()


class TestKeysAndMessages:
    OURS, NEXT, OTHER = (fc.SigningKey.new() for _ in range(3))

    def test_a_key_is_replaced_by_the_next_one(self):
        both = SitePolicy(coordinator=[self.OURS.public_key, self.NEXT.public_key])
        for key in (self.OURS, self.NEXT):
            assert (
                fc.report(key.sign(plan_for()), SCORES, site="A", policy=both).n == 120
            )
        for wrong in (plan_for(), self.OTHER.sign(plan_for())):
            with pytest.raises(fc.PolicyError, match="not signed by the coordinator"):
                fc.report(wrong, SCORES, site="A", policy=both)

    def test_a_revoked_key_is_refused_also_where_it_is_listed(self):
        keys = [self.OURS.public_key, self.NEXT.public_key]
        policy = SitePolicy(coordinator=keys, revoked=keys[:1])
        with pytest.raises(
            fc.PolicyError,
            match=r"the site's policy has revoked the key ed25519:.*\.\.\.",
        ):
            fc.report(self.OURS.sign(plan_for()), SCORES, site="A", policy=policy)
        assert (
            fc.report(self.NEXT.sign(plan_for()), SCORES, site="A", policy=policy).n
            == 120
        )

    def test_a_calibration_for_a_plan_with_a_revoked_key(self):
        asked = self.OURS.sign(plan_for())
        calibration = self.NEXT.sign(
            fc.calibrate(
                asked, [fc.report(asked, SCORES, site=site) for site in "ABCD"]
            )
        )
        keys = (self.OURS.public_key, self.NEXT.public_key)
        fc.monitoring.answer(
            calibration, SCORES + 0.5, site="A", policy=SitePolicy(coordinator=keys)
        )
        policy = SitePolicy(coordinator=keys, revoked=keys[:1])
        with pytest.raises(fc.PolicyError, match="revoked the key"):
            fc.monitoring.answer(calibration, SCORES + 0.5, site="A", policy=policy)

    def test_keys_that_leave_nobody_who_may_ask(self):
        ours = self.OURS.public_key
        for keys in (
            {"revoked": [ours]},
            {"coordinator": ours, "revoked": [ours]},
            {"coordinator": []},
        ):
            with pytest.raises(
                ValueError,
                match="coordinator must have a public key that is not revoked",
            ):
                SitePolicy(**keys)

    def test_only_the_messages_of_the_policy(self):
        policy = SitePolicy(messages=["curve"], curves="plain")
        assert (
            fc.report(
                plan_for(curve=fc.Bins.uniform(0, 120, 12)),
                SCORES,
                site="A",
                policy=policy,
            ).n
            == 120
        )
        words = (
            r"asks for the message 'ranks', .* messages = \['curve', 'ranks'\] would"
            r" allow it"
        )
        with pytest.raises(fc.PolicyError, match=words):
            fc.report(plan_for(), SCORES, site="A", policy=policy)

    def test_a_report_with_the_seal_of_its_entry(self, book):
        policy = SitePolicy(private_only=False, report_seal=True)
        account = {"ledger": book, "dataset": "D", "policy": policy}
        first = fc.report(plan_for(), SCORES, site="A", **account)
        second = fc.report(plan_for(confidence_level=0.8), SCORES, site="A", **account)
        assert [sent.ledger_seal.split(":")[0] for sent in (first, second)] == [
            "2",
            "3",
        ]
        assert fc.report(plan_for(), SCORES, site="A", **account) == first
        assert book.check(first.ledger_seal) == 3
        assert fc.Report.from_json(first.to_json()) == first
        plain = fc.report(plan_for(), SCORES, site="A")
        assert plain.ledger_seal is None
        assert "ledger_seal" not in plain.to_json()
        assert fc.report(plan_for(), SCORES, site="A", policy=policy) == plain
