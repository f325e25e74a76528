"""Checks of a calibration: counts, exact p-values and intervals, private answers, who falls short."""

import json
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedconformal as fc
from fedconformal.cli import main
from fedconformal.documents import Check
from fedconformal.heterogeneity import answer, assess, cases_needed, check
from fedconformal.heterogeneity._check import odds, percent_of
from fedconformal.heterogeneity._counting import at_most, holm, interval, noticed, p_value
from fedconformal.privacy import _count
from fedconformal.privacy._count import CountNoise
from fedconformal.privacy._ledger import LedgerError
from support import FALSE_ALARM, kolmogorov_limit

LEVEL = Fraction("0.9")
SURE = Fraction("0.95")


@lru_cache
def any_calibration(levels):
    plan = fc.plan(n_points=[50, 60], confidence_level=list(levels))
    return fc.calibrate(plan, [fc.report(plan, np.arange(n), site=f"{n}") for n in (50, 60)])


def calibrated(*thresholds, levels=None):
    """A calibration with these thresholds."""
    found = any_calibration(tuple(levels or [0.9, 0.5, 0.8][: len(thresholds)]))
    return found.model_copy(
        update={
            "levels": tuple(
                level.model_copy(update={"threshold": threshold})
                for level, threshold in zip(found.levels, thresholds, strict=True)
            )
        }
    )


def noisy_law(n, c, epsilon):
    """P(Y = y) for y = 0..n, by adding up all covered counts and all noise, independently of the code."""
    decay = math.exp(-epsilon)
    reach = n + math.ceil(60 / epsilon)
    noise = np.array([decay ** abs(z) for z in range(-reach, reach + 1)])
    noise /= noise.sum()
    counts = stats.binom.pmf(np.arange(n + 1), n, c)
    total = np.convolve(counts, noise)  # of values -reach .. n + reach
    inside = total[reach : reach + n + 1].copy()
    inside[0] += total[:reach].sum()
    inside[-1] += total[reach + n + 1 :].sum()
    return inside


class TestCounting:
    @given(
        st.lists(st.floats(allow_nan=False, min_value=-1e300), min_size=1, max_size=50),
        st.floats(allow_nan=False, min_value=-1e300),
    )
    def test_at_most_the_threshold_is_covered(self, scores, threshold):
        found = check(calibrated(threshold), scores)
        assert found.covered == sum(score <= threshold for score in scores)
        assert found.coverage == found.covered / len(scores)

    def test_ties_infinite_scores_and_infinite_thresholds(self):
        scores = [1.0, 1.0, 2.0, math.nextafter(2.0, 3.0), math.inf]
        assert check(calibrated(2.0), scores).covered == 3
        found = check(calibrated(2.0, math.inf), scores)
        assert found.covered == (3, 5)
        assert found.levels[1].interval == (1.0, 1.0)
        assert found.levels[1].p_value == 1.0
        assert not found.levels[1].falls_short

    def test_the_threshold_is_not_rounded_to_the_scores(self):
        """0.1 in float32 is above 0.1, and would be covered if the threshold were rounded too."""
        assert check(calibrated(0.1), np.array([0.1], dtype=np.float32)).covered == 0

    @pytest.mark.parametrize(
        ("scores", "words"),
        [
            ([], "at least one score"),
            ([1.0, math.nan], "must not be NaN, got 1, the first in row 1"),
            ([-math.inf], "must not be -inf"),
        ],
    )
    def test_scores_that_say_nothing_are_refused(self, scores, words):
        with pytest.raises(ValueError, match=words):
            check(calibrated(1.0), scores)

    def test_one_level_of_several(self):
        calibration = calibrated(3.0, 1.0, 2.0)
        scores = np.arange(5)
        assert check(calibration, scores).covered == (4, 2, 3)
        assert check(calibration, scores, confidence_level=0.8).covered == 3
        with pytest.raises(ValueError, match=r"one of the calibration's, 0.9, 0.5, 0.8, got 0.81"):
            check(calibration, scores, confidence_level=0.81)
        with pytest.raises(ValueError, match="confidence must be"):
            check(calibration, scores, confidence=1.0)


class TestExactCounts:
    @pytest.mark.parametrize("level", ["0.5", "0.9", "0.99", "0.123"])
    @pytest.mark.parametrize("n", [1, 2, 7, 40])
    def test_the_p_value_is_the_binomial_sum(self, n, level):
        exact, total = Fraction(level), Fraction(0)
        for k in range(n + 1):
            total += math.comb(n, k) * exact**k * (1 - exact) ** (n - k)
            assert p_value(n, k, exact) == pytest.approx(float(total), rel=1e-13)

    def test_the_level_is_the_decimal_that_was_written(self):
        """All of 1000 cases missed at the level 1 - 1e-12 has probability 1e-12000, none of one 1e-12."""
        level = Fraction("0.999999999999")
        assert p_value(1, 0, level) == pytest.approx(1e-12, rel=1e-13)

    def test_rounding_does_not_decide(self):
        """The p-value is 0.05 to the last digit: on the edge nobody is said to fall short."""
        found = check(calibrated(1.0, levels=[0.95]), [2.0])
        assert found.p_value == pytest.approx(0.05, rel=1e-15)
        assert not found.levels[0].falls_short
        assert check(calibrated(1.0, levels=[0.96]), [2.0]).levels[0].falls_short

    @pytest.mark.parametrize("n", [1, 5, 30])
    def test_the_interval_holds_any_coverage_often_enough(self, n):
        ends = [interval(n, y, SURE) for y in range(n + 1)]
        for c in np.linspace(0, 1, 201):
            law = stats.binom.pmf(np.arange(n + 1), n, c)
            assert (
                sum(p for p, (low, high) in zip(law, ends, strict=True) if low <= c <= high) >= 0.95 - 1e-12
            )

    def test_what_would_be_noticed(self):
        for n, level in [(29, LEVEL), (100, LEVEL), (212, LEVEL), (80, Fraction("0.5"))]:
            worst = noticed(n, level, 0.05, 0.8)
            p = stats.binom.cdf(np.arange(n + 1), n, float(level))
            critical = np.flatnonzero(p <= 0.05).max()
            assert stats.binom.cdf(critical, n, worst) == pytest.approx(0.8, abs=1e-9)
        assert noticed(1, LEVEL, 0.05, 0.8) is None
        assert noticed(2, LEVEL, 0.05, 0.8) is not None  # two misses of two: 0.01

    @pytest.mark.parametrize(
        ("level", "low"), [(0.9, 0.8), (0.9, 0.85), (0.95, 0.9), (0.5, 0.2), (0.99, 0.9)]
    )
    def test_cases_needed_is_the_smallest_number(self, level, low):
        def enough(n):
            p = stats.binom.cdf(np.arange(n + 1), n, level)
            critical = int(np.searchsorted(p, 0.05, side="right")) - 1
            return critical >= 0 and stats.binom.cdf(critical, n, low) >= 0.8

        assert cases_needed(level, low) == next(n for n in range(1, 10_000) if enough(n))

    def test_differences_too_small_to_find_are_refused(self):
        with pytest.raises(ValueError, match="more than 30,000 cases"):
            cases_needed(0.9, 0.8999)
        with pytest.raises(ValueError, match="coverage must be"):
            cases_needed(0.9, 0.9)


NOISY = [(1, 1.0), (2, 0.1), (5, 0.5), (12, 2.0), (12, 0.2), (25, 10.0)]


class TestNoisyCounts:
    @pytest.mark.parametrize(("n", "epsilon"), NOISY)
    def test_the_law_is_that_of_all_counts_and_all_noise(self, n, epsilon):
        for c in (0.0, 0.05, 0.5, 0.9, 0.999, 1.0):
            brute = np.cumsum(noisy_law(n, c, epsilon))
            ours = [at_most(n, y, 1 - c, CountNoise.of(epsilon)) for y in range(n + 1)]
            assert ours == pytest.approx(brute, rel=1e-10, abs=1e-20)

    @pytest.mark.parametrize("epsilon", [0.01, 0.3, 5.0])
    def test_what_lies_outside_of_the_windows_does_not_matter(self, epsilon):
        n = 4000
        for c in (0.2, 0.9):
            brute = np.cumsum(noisy_law(n, c, epsilon))
            for y in (0, 500, 790, 800, 3500, 3590, 3600, 3700, 3999):
                assert at_most(n, y, 1 - c, CountNoise.of(epsilon)) == pytest.approx(
                    brute[y], rel=1e-9, abs=1e-14
                )

    @pytest.mark.parametrize(("n", "epsilon"), NOISY)
    def test_the_interval_holds_any_coverage_often_enough(self, n, epsilon):
        ends = [interval(n, y, SURE, CountNoise.of(epsilon)) for y in range(n + 1)]
        for c in np.linspace(0, 1, 201):
            law = noisy_law(n, c, epsilon)
            assert (
                sum(p for p, (low, high) in zip(law, ends, strict=True) if low <= c <= high) >= 0.95 - 1e-12
            )

    def test_the_interval_is_no_wider_than_it_must_be(self):
        """At each end the observed count or one beyond has probability 2.5 %."""
        n, epsilon, y = 60, 0.7, 50
        low, high = interval(n, y, SURE, CountNoise.of(epsilon))
        assert noisy_law(n, high, epsilon)[: y + 1].sum() == pytest.approx(0.025, abs=1e-9)
        assert noisy_law(n, low, epsilon)[y:].sum() == pytest.approx(0.025, abs=1e-9)

    def test_little_noise_is_none(self):
        for y in (0, 3, 40, 50):
            assert interval(50, y, SURE, CountNoise.of(100)) == pytest.approx(
                interval(50, y, SURE), abs=1e-10
            )

    @pytest.mark.parametrize(("n", "epsilon"), NOISY)
    def test_no_coverage_at_the_level_is_called_short_too_often(self, n, epsilon):
        p = np.array([p_value(n, y, LEVEL, CountNoise.of(epsilon)) for y in range(n + 1)])
        for c in (0.9, 0.93, 0.99, 1.0):
            law = noisy_law(n, c, epsilon)
            for alarm in p:
                assert law[p <= alarm].sum() <= alarm + 1e-12


class TestNoise:
    @given(st.floats(1e-6, 100), st.integers(1, 7))
    def test_rounding_never_costs_privacy(self, epsilon, levels):
        share = Fraction(str(epsilon)) / levels
        assert 1 / Fraction(CountNoise.of(share).scale) <= share

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
    def test_the_loss_is_epsilon_for_every_pair_of_neighbours(self, epsilon):
        """Neighbours differ by at most one covered case; outputs at the ends gather all that is cut off."""
        n, noise = 6, CountNoise.of(epsilon)
        laws = [
            [noise.cdf(0 - count), *noise.pmf(np.arange(1, n) - count), noise.cdf(count - n)]
            for count in range(n + 1)
        ]
        assert np.sum(laws, axis=1) == pytest.approx(1.0)
        ratio = np.log(np.array(laws[1:]) / np.array(laws[:-1]))
        assert np.abs(ratio).max() <= epsilon * (1 + 1e-9)
        assert np.abs(ratio).max() >= epsilon * (1 - 1e-9)  # no more noise than needed either

    def test_pmf_and_cdf_agree(self):
        for epsilon in (0.05, 1.0, 20.0):
            noise, z = CountNoise.of(epsilon), np.arange(-40, 41)
            assert np.diff(noise.cdf(z)) == pytest.approx(noise.pmf(z[1:]), rel=1e-8, abs=1e-16)
            assert noise.cdf(-1) == pytest.approx(1 - noise.cdf(0))

    def test_draws_follow_the_law(self):
        """10,000 draws; false alarm 1e-7 (Massart's inequality holds for any law)."""
        pytest.importorskip("opendp")
        runs, n, count, epsilon = 10_000, 10, 8, 0.5
        draw = _count.prepare(count, n, epsilon)
        draws = np.array([draw() for _ in range(runs)])
        assert draws.min() >= 0
        assert draws.max() <= n
        seen = np.cumsum(np.bincount(draws, minlength=n + 1)) / runs
        law = np.array([*CountNoise.of(epsilon).cdf(np.arange(n) - count), 1.0])
        assert np.abs(seen - law).max() <= kolmogorov_limit(runs)

    def test_what_is_no_count_is_refused(self):
        with pytest.raises(ValueError, match="count must be between 0 and 5"):
            _count.prepare(6, 5, 1.0)
        with pytest.raises(ValueError, match="epsilon"):
            _count.prepare(1, 5, 0.0)


@pytest.fixture
def ledger(tmp_path):
    book = fc.Ledger.create(tmp_path / "site.db")
    book.set_budget("new", 2.0)
    return book


class TestAnswers:
    scores = np.arange(200) / 100

    def test_exact(self):
        made = answer(calibrated(1.5, math.inf), self.scores, site="A")
        assert (made.n, made.epsilon, made.covered) == (200, None, (151, 200))
        assert Check.from_json(made.to_json()) == made

    def test_charged_once_and_replayed(self, ledger):
        terms = {"site": "A", "epsilon": 0.5, "ledger": ledger, "dataset": "new"}
        calibration = calibrated(1.5)
        first = answer(calibration, self.scores, **terms)
        assert first.epsilon == 0.5
        assert ledger.spent("new") == Fraction("0.5")
        for _ in range(5):
            assert answer(calibration, self.scores, **terms) == first
        with pytest.raises(LedgerError, match="have changed"):
            answer(calibration, self.scores[:50], **terms)
        assert ledger.spent("new") == Fraction("0.5")
        assert Check.from_json(first.to_json()) == first

    def test_charged_before_it_is_drawn(self, ledger, monkeypatch):
        def draw(count, n, epsilon):
            def failing():
                raise RuntimeError("power cut")

            return failing

        monkeypatch.setattr(_count, "prepare", draw)
        terms = {"site": "A", "epsilon": 0.5, "ledger": ledger, "dataset": "new"}
        with pytest.raises(RuntimeError, match="power cut"):
            answer(calibrated(1.5), self.scores, **terms)
        assert ledger.spent("new") == Fraction("0.5")

    def test_levels_share_epsilon_and_an_infinite_threshold_needs_none(self, ledger, monkeypatch):
        shares = []

        def prepare(count, n, epsilon):
            shares.append((count, n, epsilon))
            return lambda: count

        monkeypatch.setattr(_count, "prepare", prepare)
        terms = {"site": "A", "epsilon": 0.3, "ledger": ledger, "dataset": "new"}
        made = answer(calibrated(1.5, math.inf, 0.5), [*self.scores, math.nan], **terms)
        assert shares == [(151, 201, Fraction("0.15")), (51, 201, Fraction("0.15"))]
        assert made.covered == (151, 201, 51)

    def test_what_cannot_be_answered_costs_nothing(self, ledger):
        terms = {"site": "A", "epsilon": 0.5, "ledger": ledger, "dataset": "new"}
        finite = calibrated(1.5)
        for calibration, changes, words in [
            (calibrated(math.inf), {}, "every threshold is infinite"),
            (finite, {"site": "a\nb"}, "printable"),
            (finite, {"epsilon": 1e-7}, "epsilon"),
            (finite, {"epsilon": 101.0}, "epsilon"),
            (finite, {"epsilon": 3.0}, "budget"),
            (finite, {"dataset": "unknown"}, "no budget"),
            (finite, {"ledger": None}, "needs ledger and dataset"),
            (finite, {"epsilon": None}, "go with a private answer"),
        ]:
            with pytest.raises(ValueError, match=words):
                answer(calibration, self.scores, **{**terms, **changes})
        assert ledger.spent("new") == 0

    def test_another_epsilon_for_the_same_calibration_is_refused(self, ledger):
        terms = {"site": "A", "ledger": ledger, "dataset": "new"}
        answer(calibrated(1.5), self.scores, epsilon=0.5, **terms)
        with pytest.raises(ValueError, match="another epsilon"):
            answer(calibrated(1.5), self.scores, epsilon=0.6, **terms)

    def test_data_that_were_charged_for_the_calibration_are_not_new(self, ledger):
        privacy = fc.Privacy(epsilon=1.0, bins=fc.Bins.uniform(0, 2, 20))
        plan = fc.plan(n_sites=3, n_points=200, privacy=privacy)
        reports = [fc.report(plan, self.scores, site="A", ledger=ledger, dataset="new")]
        reports += [reports[0].model_copy(update={"site": site}) for site in "BC"]
        calibration = fc.calibrate(plan, reports)
        with pytest.raises(ValueError, match="dataset 'new' was used for this calibration"):
            answer(calibration, self.scores, site="A", epsilon=0.5, ledger=ledger, dataset="new")
        assert ledger.spent("new") == 1


def answered(calibration, counts, n=212, epsilon=None):
    return [
        Check(calibration=calibration.digest, site=site, n=n, epsilon=epsilon, covered=covered)
        for site, covered in counts.items()
    ]


class TestAssessment:
    def test_who_falls_short(self):
        """182 of 212 have p-value 0.033: short for a site alone, not for one of several."""
        calibration = calibrated(1.0)
        result = assess(calibration, answered(calibration, {"A": (195,), "B": (160,), "C": (182,)}))
        assert [row.site for row in result.short] == ["B"]
        assert "falls short at: B (level 90 %) (the probability" in result.sentence()
        pair = assess(calibration, answered(calibration, {"A": (195,), "C": (182,)}))
        assert "No site can be said to fall short" in pair.sentence()
        assert pair.rows[1].found.falls_short
        alone = assess(calibration, answered(calibration, {"C": (182,)}))
        assert [row.site for row in alone.short] == ["C"]

    def test_an_exact_answer_says_what_the_site_saw(self):
        calibration, scores = calibrated(1.5, 0.5), np.arange(200) / 100
        seen = check(calibration, scores)
        rows = assess(calibration, [answer(calibration, scores, site="A")]).rows
        assert tuple(row.found for row in rows) == seen.levels

    def test_noise_is_shared_by_finite_levels(self):
        calibration = calibrated(1.0, math.inf, 0.5)
        rows = assess(calibration, answered(calibration, {"A": (190, 212, 100)}, epsilon=0.4)).rows
        noise = CountNoise.of(Fraction("0.2"))
        assert rows[0].found.interval == interval(212, 190, SURE, noise)
        assert rows[2].found.p_value == p_value(212, 100, Fraction("0.8"), noise)
        assert rows[1].found.interval == (1.0, 1.0)

    def test_answers_that_do_not_fit_are_all_named(self):
        calibration, other = calibrated(1.0, math.inf), calibrated(2.0, math.inf)
        wrong = [
            *answered(other, {"A": (1, 212)}),
            *answered(calibration, {"B": (1, 2, 3), "C": (1, 211), "D": (1, 212)}),
            *answered(calibration, {"D": (1, 212)}),
        ]
        with pytest.raises(
            ValueError, match=r"4 refused: A: checks another.*B: has 3 counts.*C: says.*D: answered 2"
        ):
            assess(calibration, wrong)
        with pytest.raises(ValueError, match="at least one"):
            assess(calibration, [])

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.5))
    def test_holm_rejects_step_by_step(self, p_values, alarm):
        rejected = set()
        for place, (p, i) in enumerate(sorted((p, i) for i, p in enumerate(p_values))):
            if p * (len(p_values) - place) > alarm:
                break
            rejected.add(i)
        assert {i for i, p in enumerate(holm(p_values)) if p <= alarm} == rejected

    def test_nobody_is_named_wrongly_too_often(self):
        """All pairs of answers of two sites whose coverage is the level, one of them private: exactly."""
        n, epsilon = 30, 0.8
        exact = [p_value(n, y, LEVEL) for y in range(n + 1)]
        noisy = [p_value(n, y, LEVEL, CountNoise.of(epsilon)) for y in range(n + 1)]
        named = np.array([[min(holm([a, b])) <= 0.05 for b in noisy] for a in exact])
        wrong = stats.binom.pmf(np.arange(n + 1), n, 0.9) @ named @ noisy_law(n, 0.9, epsilon)
        assert 0.01 < wrong <= 0.05

    def test_a_private_answer_still_finds_a_site_that_differs(self, ledger):
        """A site with 10 % coverage of 200 cases: missed with probability below FALSE_ALARM."""
        calibration, scores = calibrated(0.19), np.arange(200) / 100
        made = answer(calibration, scores, site="odd", epsilon=1.0, ledger=ledger, dataset="new")
        unnoticed = CountNoise.of(1.0).cdf(20 - 100)  # so much noise that half of the cases seem covered
        assert unnoticed < FALSE_ALARM
        assert [row.site for row in assess(calibration, [made]).short] == ["odd"]


class TestWords:
    def test_a_shortfall(self):
        words = check(calibrated(1.0), [0.0] * 171 + [2.0] * 41, site="north").sentence()
        assert "of 212 new cases at north, 171 (80.7 %) fall inside" in words
        assert "between 74.6 % and 85.8 % (95 % confidence)" in words
        assert "by chance in fewer than 1 of 10,000 checks" in words
        assert "differ from those of other sites, or this calibration came out low" in words

    def test_no_shortfall_is_no_proof(self):
        words = check(calibrated(1.0), [0.0] * 190 + [2.0] * 22).sentence()
        assert "no proof that it is not" in words
        assert "in 4 of 5 checks if it were 83.9 % or less" in words
        assert "can never show a shortfall" in check(calibrated(1.0), [0.0]).sentence()
        assert "That is at least 50 %." in check(calibrated(0, 1.0), [0.0] * 99).sentence().splitlines()[1]
        assert "hold everything" in check(calibrated(math.inf), [0.0]).sentence()

    def test_all_digits_of_a_level_are_said(self):
        assert [percent_of(level) for level in (0.9, 0.999, 0.9999999, 0.05)] == [
            "90 %",
            "99.9 %",
            "99.99999 %",
            "5 %",
        ]

    def test_odds(self):
        assert odds(1.0) == "by chance in about 100 of 100 checks"
        assert odds(0.02) == "by chance in about 1 of 50 checks"
        assert odds(0.00009) == "by chance in fewer than 1 of 10,000 checks"
        assert odds(0.0) == odds(1e-300) == "by chance in fewer than 1 of 1,000,000 checks"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """The command in a directory with a calibration and new scores."""
    monkeypatch.chdir(tmp_path)
    plan = fc.plan(n_points={"A": 40, "B": 60}, confidence_level=0.8, score="absolute")
    rng = np.random.default_rng(0)
    reports = [fc.report(plan, rng.exponential(size=n), site=s) for s, n in (("A", 40), ("B", 60))]
    (tmp_path / "calibration.json").write_text(fc.calibrate(plan, reports).to_json())
    np.savetxt(tmp_path / "new.csv", rng.exponential(size=150), header="score", comments="")
    np.savetxt(tmp_path / "odd.csv", 4 * rng.exponential(size=150), header="score", comments="")

    def run(*arguments, code=0):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == code
        printed = capsys.readouterr()
        if code == 2:
            assert printed.err.startswith("fedconformal: ")
            assert printed.err.count("\n") == 1, printed.err
        return printed

    return run


class TestCommands:
    def test_nothing_leaves_unless_asked(self, run, tmp_path):
        before = sorted(tmp_path.iterdir())
        printed = run("check", "calibration.json", "new.csv", "--site", "A")
        assert "new cases at A" in printed.out
        assert "new cases only" in printed.out
        assert "leaves" not in printed.err
        assert sorted(tmp_path.iterdir()) == before

    def test_json(self, run):
        found = json.loads(run("check", "calibration.json", "new.csv", "--json").out)
        expected = check(fc.Calibration.read("calibration.json"), np.loadtxt("new.csv", skiprows=1))
        assert found["levels"][0]["covered"] == expected.covered
        assert found["levels"][0]["interval"] == list(expected.interval)
        assert found["sentence"] == expected.sentence()

    def test_answers_are_shown_and_compared(self, run, tmp_path):
        shown = run("check", "calibration.json", "new.csv", "--site", "A", "-o", "A.json").err
        assert (tmp_path / "A.json").read_text().strip() in shown
        run("check", "calibration.json", "odd.csv", "--site", "B", "-o", "B.json")
        assert "falls short at: B" in run("checks", "calibration.json", "A.json", "B.json").out
        rows = json.loads(run("checks", "calibration.json", "A.json", "B.json", "--json").out)["sites"]
        assert [row["falls_short"] for row in rows] == [False, True]
        assert rows[1]["adjusted_p_value"] == pytest.approx(2 * rows[1]["p_value"])

    def test_a_private_answer(self, run, tmp_path):
        run("ledger", "new", "site.db")
        run("ledger", "budget", "site.db", "spring", 1)
        (tmp_path / "gap.csv").write_text("score\n0.5\nnan\n9.5\n0.25\n")
        order = ["check", "calibration.json", "gap.csv", "--site", "A", "--private", 1]
        account = ["--ledger", "site.db", "--dataset", "spring"]
        run(*order, *account, "-o", "A.json")
        made = Check.read("A.json")
        assert (made.n, made.epsilon) == (4, 1.0)
        run(*order, *account, "-o", "again.json")
        assert Check.read("again.json") == made
        assert "exact" not in run("checks", "calibration.json", "A.json").out
        for wrong in (order, [*order, *account], [*order, "-o", "x.json"]):
            assert "--private goes with" in run(*wrong, code=2).err

    def test_scores_from_cases(self, run, tmp_path):
        truth, predicted = np.random.default_rng(1).normal(size=(2, 30))
        cases = np.stack([truth, predicted], axis=1)
        np.savetxt("cases.csv", cases, delimiter=",", header="y,yhat", comments="")
        np.savetxt("differences.csv", np.abs(truth - predicted), header="score", comments="")
        columns = ["--target", "y", "--prediction", "yhat"]
        computed = run("check", "calibration.json", "cases.csv", *columns, "--json").out
        assert computed == run("check", "calibration.json", "differences.csv", "--json").out

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["-o", "A.json"], "--site"),
            (["--ledger", "site.db"], "go with --private"),
            (["--site", "A", "--confidence-level", 0.8, "-o", "A.json"], "for all levels"),
            (["--confidence-level", 0.7], "one of the calibration's"),
            (["--column", "nothing"], "no column"),
        ],
    )
    def test_mistakes_are_one_line(self, run, tmp_path, options, words):
        assert words in run("check", "calibration.json", "new.csv", *options, code=2).err
        assert not (tmp_path / "A.json").exists()

    def test_files_that_are_no_answers_are_named(self, run):
        assert (
            "calibration.json: not a check"
            in run("checks", "calibration.json", "calibration.json", code=2).err
        )
        assert "nowhere.json" in run("checks", "calibration.json", "nowhere.json", code=2).err


def test_words_for_a_promise_to_each_site():
    plan = fc.plan(n_points={"A": 60, "B": 60}, confidence_level=0.9, target="each-site")
    rng = np.random.default_rng(0)
    calibration = fc.calibrate(plan, [fc.report(plan, rng.random(60), site=site) for site in "AB"])
    words = check(calibration, 2 * rng.random(300), site="A").sentence()
    assert "have changed since the calibration, or it came out low for this site" in words
    assert "other sites" not in words
