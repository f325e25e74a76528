"""Scores of losses: their definition by brute force, and the risk that calibrated
thresholds have.
"""

import warnings
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.scores import MissedLabels, MissedPixels, from_losses
from support import bernstein_limit, kolmogorov_distance, kolmogorov_limit

# -- scores from losses ----------------------------------------------------------------


def random_losses(rng, n, n_settings, bound=1.0):
    """Falling losses with ties, 0 at the last setting."""
    losses = (
        np.sort(rng.integers(0, 9, size=(n, n_settings)) / 8, axis=1)[:, ::-1] * bound
    )
    return np.where(np.arange(n_settings) == n_settings - 1, 0.0, losses)


def test_the_score_is_the_smallest_setting_whose_loss_is_at_most_u():
    rng = np.random.default_rng(0)
    for bound in (1.0, 2.0, 0.5):
        losses, settings = (
            random_losses(rng, 300, 7, bound),
            np.sort(rng.normal(size=7)),
        )
        u = rng.integers(0, 16, size=300) / 16
        expected = [
            min(
                t
                for t, loss in zip(settings, row, strict=True)
                if Fraction(loss) / Fraction(bound) <= x
            )
            for row, x in zip(losses.tolist(), map(Fraction, u.tolist()), strict=True)
        ]
        np.testing.assert_array_equal(
            from_losses(losses, settings, u, bound=bound), expected
        )


def test_miscoverage_is_the_risk_at_every_setting():
    """Over evenly spaced u the share of scores above a setting is the loss there,
    exactly.
    """
    rng = np.random.default_rng(1)
    losses, settings = random_losses(rng, 50, 6), np.arange(6.0)
    for row in losses:
        scores = from_losses(np.tile(row, (8, 1)), settings, (np.arange(8)) / 8)
        assert [(scores > t).mean() for t in settings] == row.tolist()


def test_losses_in_any_memory_order_and_in_many_blocks():
    rng = np.random.default_rng(2)
    losses, u = random_losses(rng, 5_000, 60), rng.random(5_000)
    whole = from_losses(losses, np.arange(60), u)
    np.testing.assert_array_equal(
        from_losses(np.asfortranarray(losses), np.arange(60), u), whole
    )
    np.testing.assert_array_equal(
        np.concatenate(
            [
                from_losses(losses[i : i + 1], np.arange(60), u[i : i + 1])
                for i in range(200)
            ]
        ),
        whole[:200],
    )
    assert from_losses([[0.0]], [5], [0.5]).tolist() == [5.0]
    assert from_losses([[1, 0]], [0, np.inf], [0.5]).tolist() == [np.inf]


def test_without_a_source_the_system_draws():
    losses = np.tile(np.linspace(1, 0, 1001), (50, 1))
    first, second = (from_losses(losses, np.arange(1001)) for _ in range(2))
    assert (first != second).any()
    rng = np.random.default_rng(3)
    assert (from_losses(losses, np.arange(1001), rng) != first).any()


@pytest.mark.parametrize(
    ("place", "value", "rule"),
    [
        ((3, 1), 0.9, "must not rise from one setting to the next"),
        ((3, 0), 1.5, "must lie between 0 and 1"),
        ((3, 3), 0.25, "must be 0 at the last setting"),
        ((3, 3), -0.25, "must lie between 0 and 1"),
        ((3, 2), np.nan, "must lie between 0 and 1"),
    ],
)
def test_bad_losses_are_refused_with_the_first_case(place, value, rule):
    losses = np.tile([0.5, 0.5, 0.25, 0.0], (6, 1))
    losses[place] = losses[5, place[1]] = value
    with pytest.raises(
        ValueError, match=rf"losses {rule}; violated in 2 of 6 rows \(first: row 3"
    ):
        from_losses(losses, [1, 2, 3, 4], np.zeros(6))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": [1, 2]}, "one number for each of the 3 columns of losses, got 2"),
        ({"settings": [1, 3, 3]}, "settings must rise"),
        ({"settings": [1, np.nan, 3]}, "settings must rise"),
        ({"settings": [-np.inf, 2, 3]}, "settings must rise"),
        ({"bound": 0.0}, "bound must be a finite number above 0, got 0.0"),
        ({"rng": [0.5, 1.0]}, r"u must lie in \[0, 1\)"),
        ({"losses": [0.5, 0.0]}, "2 dimension"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    given = {
        "losses": [[1, 0.5, 0], [1, 0, 0]],
        "settings": [1, 2, 3],
        "rng": [0.1, 0.2],
        **options,
    }
    with pytest.raises(ValueError, match=message):
        from_losses(**given)


# -- labels and pixels -----------------------------------------------------------------


def random_cases(seed, n=400, k=6):
    rng = np.random.default_rng(seed)
    return (
        rng.random((n, k)) < 0.4,
        rng.integers(0, 11, size=(n, k)) / 10,
        rng.random(n),
    )


def test_labels_are_scored_by_the_definition():
    y, p, u = random_cases(4)
    scores = MissedLabels().score(y, p, u=u)
    for truth, improbable, x, score in zip(y, 1.0 - p, u, scores, strict=True):
        candidates = [0.0, *sorted(improbable)]
        losses = [
            np.mean(improbable[truth] > t) if truth.any() else 0.0 for t in candidates
        ]
        assert score == next(
            t for t, loss in zip(candidates, losses, strict=True) if loss <= x
        )
    assert (scores[~y.any(axis=1)] == 0).all()
    assert not y.any(axis=1).all()


def test_pixels_are_labels_of_an_image():
    y, p, u = random_cases(5)
    expected = MissedLabels().score(y, p, u=u)
    images, truths = p.reshape(-1, 2, 3), y.reshape(-1, 2, 3).astype(float)
    np.testing.assert_array_equal(MissedPixels().score(truths, images, u=u), expected)
    np.testing.assert_array_equal(
        MissedPixels().score(list(truths), list(images), u=u), expected
    )
    np.testing.assert_array_equal(
        MissedPixels().set(images, [0.2, 0.7]).reshape(-1, 6, 2),
        MissedLabels().set(p, [0.2, 0.7]),
    )
    np.testing.assert_array_equal(
        MissedPixels().losses(truths, images, [0.2, 0.7]),
        MissedLabels().losses(y, p, [0.2, 0.7]),
    )


def test_images_of_several_shapes():
    rng = np.random.default_rng(6)
    images = [rng.random(shape) for shape in ((4, 4), (2, 9), (3, 3, 3))]
    truths = [image > 0.5 for image in images]
    scores = MissedPixels().score(truths, images, u=[0.0, 0.5, 0.9])
    alone = [
        MissedLabels().score(truth.reshape(1, -1), image.reshape(1, -1), u=[x])[0]
        for truth, image, x in zip(truths, images, [0.0, 0.5, 0.9], strict=True)
    ]
    assert scores.tolist() == alone
    masks = MissedPixels().set(images, 0.3)
    assert [mask.shape for mask in masks] == [image.shape for image in images]
    own = MissedPixels().sets(images, [[0.3], [0.6], [0.9]])
    for mask, image, threshold in zip(own, images, (0.3, 0.6, 0.9), strict=True):
        np.testing.assert_array_equal(mask[..., 0], 1 - image <= threshold)


@pytest.mark.parametrize("score", [MissedLabels(), MissedPixels()])
def test_sets_miss_what_losses_say_and_nothing_at_the_largest_threshold(score):
    y, p, _ = random_cases(7)
    shape = (-1, 2, 3) if score.takes_images else (-1, 6)
    truth, prediction = y.reshape(shape), p.reshape(shape)
    settings = [-0.5, 0.0, 0.35, 0.5, 1.0, np.inf]
    losses = score.losses(truth, prediction, settings)
    for t, column in zip(settings, losses.T, strict=True):
        chosen = score.set(prediction, t).reshape(len(y), -1)
        assert column.tolist() == [
            np.mean(~row[own]) if own.any() else 0.0
            for row, own in zip(chosen, y, strict=True)
        ]
    assert not losses[:, -2:].any()
    assert (score.score(truth, prediction) <= score.largest).all()
    np.testing.assert_array_equal(
        from_losses(losses[:, 1:], settings[1:], np.full(len(y), 0.5)),
        from_losses(
            score.losses(truth, prediction, settings[1:]),
            settings[1:],
            np.full(len(y), 0.5),
        ),
    )


def test_bad_cases_are_refused_with_the_first():
    labels, pixels = MissedLabels(), MissedPixels()
    with pytest.raises(
        ValueError, match=r"y must hold 0 or 1; violated in 1 of 2 rows"
    ):
        labels.score([[0, 1], [2, 1]], [[0.5, 0.5]] * 2)
    with pytest.raises(
        ValueError, match=r"prediction must hold probabilities, .* \(first: row 1"
    ):
        labels.score([[0, 1]] * 2, [[0.5, 0.5], [0.5, np.nan]])
    with pytest.raises(
        ValueError,
        match=r"y must have shape \(1, 2\) to match prediction, got \(1, 3\)",
    ):
        labels.score([[0, 1, 1]], [[0.5, 0.5]])
    with pytest.raises(ValueError, match="in image 1, got 2"):
        pixels.score([np.eye(2), 2 * np.eye(2)], [np.eye(2)] * 2)
    with pytest.raises(
        ValueError, match=r"shape of prediction, \(2, 2\), in image 0, got \(3, 3\)"
    ):
        pixels.score([np.eye(3)], [np.eye(2)])
    with pytest.raises(
        ValueError, match="y must hold 1 images to match prediction, got 2"
    ):
        pixels.score([np.eye(2)] * 2, [np.eye(2)])
    with pytest.raises(
        ValueError,
        match=r"prediction must be an array \(n, height, width\) or a list of images",
    ):
        pixels.set(np.eye(2), 0.5)
    with pytest.raises(
        ValueError, match=r"y must be an array \(n, height, width\) .* got \(2,\)"
    ):
        pixels.score(np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match=r"prediction must be .* got \(2,\)"):
        pixels.score([np.eye(2)], [np.ones(2)])
    with pytest.raises(TypeError, match="rng must be a numpy Generator or one number"):
        from_losses([[1, 0]], [1, 2], rng=0)
    with pytest.raises(ValueError, match="u was given"):
        labels.sets([[0.5]], [0.5], u=[0.5])


def test_private_scores_refuse_no_case():
    y, p = (
        np.array([[1.0, 0], [np.nan, 1], [1, 1], [2, 0]]),
        np.array([[0.4, 1], [1, 1], [np.inf, 0], [1, 1]]),
    )
    np.testing.assert_array_equal(
        MissedLabels().scores_or_nan(y, p, u=[0.5] * 4), [0.6, *[np.nan] * 3]
    )
    with pytest.raises(
        ValueError, match=r"y must have shape \(4, 2\) to match prediction"
    ):
        MissedLabels().scores_or_nan(y[:, 0], p, u=[0.5] * 4)


# -- the risk that a deployment has ----------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """A loss of which the score and the risk are known in closed form; x stands for a
    case.
    """

    score: object
    risk: object
    losses: object
    bound: float = 1.0


def labels_of(x, u):
    """Three labels of which the first is always true: 1 - p is uniform to the second
    power.
    """
    rng = np.random.default_rng(int(x[0] * 2**40))
    truth, p = rng.random((len(x), 3)) < [1, 0.5, 0.2], 1 - rng.random((len(x), 3)) ** 2
    return MissedLabels().score(truth, p, u=u)


LOSSES = {
    "ramp": Loss(
        lambda x, u: x * (1 - u),
        lambda t: 1 - t + t * np.log(t),
        lambda x, t: np.maximum(0, 1 - t / x[:, None]),
    ),
    "missed or not": Loss(
        lambda x, u: x, lambda t: 1 - t, lambda x, t: (t < x[:, None]) * 1.0
    ),
    "squared, up to 2": Loss(
        lambda x, u: x * (1 - np.sqrt(u)),
        lambda t: 1 + 2 * t * np.log(t) - t**2,
        lambda x, t: 2 * np.maximum(0, 1 - t / x[:, None]) ** 2,
        bound=2.0,
    ),
    "a share, at once": Loss(
        lambda x, u: np.where(x % 2**-20 * 2**20 > u, x, 0.0),
        lambda t: (1 - t) / 2,
        lambda x, t: (x % 2**-20 * 2**20)[:, None] * (t < x[:, None]),
    ),
    "labels": Loss(labels_of, lambda t: 1 - np.sqrt(t), None),
}
RUNS = 20_000
"""Of each simulation; by Massart the distributions are compared up to 0.021."""
SIZES = {"A": 60, "B": 30, "C": 45}


def thresholds(plan, scores):
    """Return the threshold of each run, from scores of shape (runs, n) by site."""
    values, votes = [], []
    for own, ranks, weights in zip(scores, plan.local_ranks, plan.weights, strict=True):
        values.append(np.sort(own, axis=1)[:, np.atleast_1d(ranks) - 1])
        votes += np.broadcast_to(weights, values[-1].shape[1]).tolist()
    sent = np.concatenate(values, axis=1)
    order = np.argsort(sent, axis=1)
    first = (np.array(votes)[order].cumsum(axis=1) >= plan.server_rank).argmax(axis=1)
    return np.take_along_axis(sent, order, axis=1)[np.arange(len(sent)), first]


def draw_scores(loss, rng):
    return [
        loss.score(rng.random(RUNS * n), rng.random(RUNS * n)).reshape(RUNS, n)
        for n in SIZES.values()
    ]


@pytest.mark.parametrize("name", [name for name, loss in LOSSES.items() if loss.losses])
def test_scores_from_losses_are_those_of_the_formula_rounded_up_to_the_settings(name):
    rng = np.random.default_rng(8)
    x, u, settings = rng.random(500), rng.random(500), np.linspace(0, 1, 201)
    losses = LOSSES[name].losses(x, settings)
    expected = settings[np.searchsorted(settings, LOSSES[name].score(x, u) - 1e-12)]
    np.testing.assert_array_equal(
        from_losses(losses, settings, u, bound=LOSSES[name].bound), expected
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_the_risk_of_alike_sites_has_the_distribution_of_the_plan(name):
    plan = fc.plan(n_points=SIZES, risk=0.2)
    scores = draw_scores(LOSSES[name], np.random.default_rng(9))
    reports = [
        fc.report(plan, own[0], site=site)
        for site, own in zip(SIZES, scores, strict=True)
    ]
    found = thresholds(plan, scores)
    assert found[0] == fc.calibrate(plan, reports).threshold
    assert kolmogorov_distance(
        1 - LOSSES[name].risk(found), plan.law.cdf
    ) < kolmogorov_limit(RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("promise", ["mixture", "each-site"])
@pytest.mark.parametrize("name", LOSSES)
def test_the_risk_of_unlike_sites_is_as_promised(name, promise):
    """Site B has scores half as large, site C a third; the risk at t is then that of A
    at 2 t or 3 t.
    """
    plan = fc.plan(n_points=SIZES, promise=promise, risk=0.2)
    scores = [
        own / i
        for i, own in enumerate(draw_scores(LOSSES[name], np.random.default_rng(10)), 1)
    ]
    found = thresholds(plan, scores)
    risks = [LOSSES[name].risk(np.minimum(found * i, 1.0)) for i in (1, 2, 3)]
    mixed = sum(
        (n + 1) / 138 * risk for n, risk in zip(SIZES.values(), risks, strict=True)
    )
    for risk in [mixed] if promise == "mixture" else risks:
        assert risk.mean() <= 0.2 + bernstein_limit(risk)


def test_the_distribution_of_the_risk_of_the_default_plan():
    laws = [
        fc.plan(n_sites=10, n_points=500, risk=0.1, numbers=numbers).law
        for numbers in (1, 3)
    ]
    assert [(round(1 - law.mean(), 4), round(law.std(), 4)) for law in laws] == [
        (0.0997, 0.0052),
        (0.0999, 0.0045),
    ]


def spread_of_the_risk(runs):
    """Return the ratio of the simulated and the planned standard deviation, 10 sites of
    500.
    """
    rng, plan = np.random.default_rng(11), fc.plan(n_sites=10, n_points=500, risk=0.1)
    found = []
    for _ in range(runs):
        y, p = rng.random((5000, 4)) < [1, 0.4, 0.4, 0.1], 1 - rng.random((5000, 4))
        scores = MissedLabels().score(y, p, u=rng)
        reports = [
            fc.report(plan, scores[i * 500 :][:500], site=str(i)) for i in range(10)
        ]
        found.append(
            fc.calibrate(plan, reports).threshold
        )  # 1 - p is uniform: it is 1 - risk
    return (
        np.std(found) / plan.law.std(),
        (np.mean(found) - plan.law.mean()) / plan.law.std(),
    )


@pytest.mark.nightly
def test_the_default_plan_for_labels_spreads_as_its_distribution():
    """Of 5,000 runs the ratio has a standard deviation of .01, so that 5 % is five of
    them.
    """
    ratio, offset = spread_of_the_risk(5000)
    assert abs(ratio - 1) < 0.05
    assert abs(offset) < 5.3 / np.sqrt(5000)


# -- cases without truth ---------------------------------------------------------------


def mostly_empty(n=200, share=0.1):
    """Images of which a share show a tumour, all alike to the model."""
    rng = np.random.default_rng(5)
    has = np.arange(n) < share * n
    return (rng.random((n, 3, 3)) < 0.5) & has[:, None, None], rng.uniform(
        0.1, 0.9, size=(n, 3, 3)
    )


def test_a_promise_says_that_cases_without_truth_count_as_found():
    options = {"n_sites": 3, "n_points": 100, "score": "missed-pixels", "risk": 0.1}
    end = "An image without true pixels counts as found completely."
    for more, promised in (
        (
            {},
            (
                "On average, at least 90 % of an image's true pixels are found for new"
                " cases, if the model errs"
            ),
        ),
        (
            {"criterion": "conditional"},
            "at least 90 % of an image's true pixels are found on average for new",
        ),
    ):
        plan = fc.plan(**options, **more)
        design = plan.designs[0]
        promise, criterion = (
            fc.planning.PROMISES[design.promise](),
            fc.planning.CRITERIA[design.criterion](),
        )
        words = promise.sentence(
            criterion, 0.9, 0.1, claim=fc.messages.claim(design, plan.score)
        )
        words = words.replace("\xa0", " ").replace("\u202f", " ")
        assert promised in words
        assert words.endswith(end)
        assert words.count("average") == 1


@pytest.mark.parametrize(
    "curve", [{}, {"curve": fc.Bins.uniform(0, 1, 10), "parts": 18}]
)
def test_a_site_is_warned_of_many_cases_without_truth(curve):
    truth, p = mostly_empty()
    score = MissedPixels()
    policy = fc.SitePolicy(curves="plain")

    def answer(risk):
        plan = fc.plan(n_points={"A": 200}, score=score, risk=risk, **curve)
        edges = plan.designs[0].message.edges if curve else None
        values = fc.protocol.score_cases(score, truth, p, edges=edges, plan=plan)
        fc.report(
            plan, **{"losses" if curve else "scores": values}, site="A", policy=policy
        )

    text = (
        "90.0 % of the cases have nothing to find, or .* an allowed risk of 10 % the"
        " others may"
    )
    with pytest.warns(UserWarning, match=text):
        answer(0.1)
    truth |= np.arange(200)[:, None, None] % 10 != 5
    with pytest.warns(
        UserWarning, match=r"^9\.0 % of the cases have nothing to find"
    ):  # 18 of 200
        answer(0.09)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer(0.2)


def test_no_private_report_tells_how_many_cases_are_without_truth(tmp_path):
    truth, p = mostly_empty()
    ledger = fc.Ledger.create(tmp_path / "site.db")
    ledger.set_budget("trial", 1)
    plan = fc.plan(
        n_points={"A": 200},
        score="missed-pixels",
        risk=0.3,
        privacy=fc.Privacy(epsilon=1),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = fc.protocol.score_cases(
            MissedPixels(), truth, p, plan=plan, private=True
        )
        fc.report(plan, scores, site="A", ledger=ledger, dataset="trial")
