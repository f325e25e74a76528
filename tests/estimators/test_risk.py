"""The risk controller: scikit-learn's conventions, and the decisions of MAPIE's
controllers on one site.
"""

import pickle

import numpy as np
import pytest
from mapie.risk_control import (
    MultiLabelClassificationController,
    SemanticSegmentationController,
)
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.utils.validation import check_is_fitted

import fedconformal as fc
from fedconformal import FederatedRiskController as Controller

PARAMS = np.linspace(0, 0.99, 100)


def identity(X):
    return X


def some_cases(seed, n=300, k=5):
    """Probabilities and true labels, one at least in each case, which MAPIE asks
    for.
    """
    rng = np.random.default_rng(seed)
    p = rng.random((n, k))
    y = rng.random((n, k)) < p
    y[np.arange(n), p.argmax(axis=1)] |= ~y.any(axis=1)
    return p, y.astype(int)


def missed(p, y, param):
    return np.mean(((p < param) & (y == 1)).sum(axis=1) / y.sum(axis=1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The risk cannot be controlled")
def test_sums_of_losses_decide_as_mapie_does_on_one_site():
    """Exactly, but for a bound that equals the target, which MAPIE does not accept."""
    for seed in range(3):
        p, y = some_cases(seed, n=80)
        for target in (0.7, 0.8, 0.93):
            theirs = MultiLabelClassificationController(
                identity, target_level=target, predict_params=PARAMS
            )
            ours = Controller(identity, target_level=target, predict_params=PARAMS)
            ours.calibrate(p, y, sites=["A"] * 80)
            np.testing.assert_allclose(
                ours.best_predict_param,
                theirs.calibrate(p, y).best_predict_param,
                atol=1e-15,
            )
            np.testing.assert_array_equal(ours.predict(p), theirs.predict(p))


def test_images_are_decided_as_mapie_does_on_one_site():
    rng = np.random.default_rng(1)
    p = rng.random((80, 6, 7))
    y = (rng.random(p.shape) < p).astype(int)
    theirs = SemanticSegmentationController(
        identity, target_level=0.85, predict_params=PARAMS
    )
    theirs.calibrate(p[:, None], y.reshape(80, -1))
    ours = Controller(identity, target_level=0.85, predict_params=PARAMS).calibrate(
        p, y, sites=["A"] * 80
    )
    np.testing.assert_allclose(
        ours.best_predict_param, theirs.best_predict_param, atol=1e-15
    )
    np.testing.assert_array_equal(
        ours.predict(p)[..., 0], theirs.predict(p[:, None])[:, 0]
    )


@pytest.mark.slow
def test_one_number_decides_as_mapie_does_but_for_the_draws():
    """Over 100 seeded draws on the same cases, the mean risk is MAPIE's within 0.01."""
    p, y = some_cases(2, n=200)
    theirs = MultiLabelClassificationController(
        identity, target_level=0.8, predict_params=np.linspace(0, 1, 201)
    )
    expected = missed(p, y, theirs.calibrate(p, y).best_predict_param[0])
    ours = [
        Controller(identity, target_level=0.8, rng=i)
        .calibrate(p, y, sites=["A"] * 200)
        .best_predict_param[0]
        for i in range(100)
    ]
    risks = [missed(p, y, param) for param in ours]
    assert abs(np.mean(risks) - expected) < 0.01
    assert np.std(risks) < 0.03


@pytest.mark.slow
def test_certainty_is_less_cautious_than_hoeffding_and_as_cautious_as_promised():
    """On average over four data sets; MAPIE's RCPS with Hoeffding's bound, ours by sums
    and by one number.
    """
    found = []
    for seed in range(4):
        p, y = some_cases(seed, n=150)
        options = {"target_level": 0.8, "confidence_level": 0.9}
        theirs = MultiLabelClassificationController(
            identity,
            method="rcps",
            rcps_bound="hoeffding",
            predict_params=PARAMS,
            **options,
        ).calibrate(p, y)
        sums, one = (
            Controller(identity, predict_params=params, rng=seed, **options).calibrate(
                p, y, sites=["A"] * 150
            )
            for params in (PARAMS, None)
        )
        assert one.calibration_.law.sf(0.8) >= 0.9
        found.append([c.best_predict_param[0] for c in (theirs, sums, one)])
    hoeffding, bentkus, binomial = np.mean(found, axis=0)
    assert hoeffding < bentkus < binomial


def test_a_risk_is_one_minus_a_performance_and_coverage_is_that_of_classes():
    p, y = some_cases(3)
    recall = Controller(identity, target_level=[0.8, 0.9], rng=0).calibrate(
        p, y, sites=["A", "B"] * 150
    )
    rate = Controller(identity, "false_negative_rate", target_level=[0.2, 0.1], rng=0)
    rate.calibrate(p, y, sites=["A", "B"] * 150)
    assert rate.calibration_ == recall.calibration_
    assert rate.predict(p).shape == (300, 5, 2)
    shares = p / p.sum(axis=1, keepdims=True)
    classes = Controller(identity, "coverage", target_level=0.8).calibrate(
        shares, p.argmax(axis=1), sites=["A", "B"] * 150
    )
    assert classes.calibration_ == fc.conformalize(
        fc.scores.LAC().score(p.argmax(axis=1), shares),
        sites=["A", "B"] * 150,
        confidence_level=0.8,
        score="lac",
    )
    sums = Controller(identity, "coverage", target_level=0.8, predict_params=PARAMS)
    sums.calibrate(shares, p.argmax(axis=1), sites=["A", "B"] * 150)
    assert abs(sums.best_predict_param[0] - classes.best_predict_param[0]) < 0.03


def test_every_form_of_probabilities_and_every_promise():
    X, y = make_multilabel_classification(n_samples=600, n_classes=4, random_state=0)
    y[:, 0] |= ~y.any(axis=1)
    model = MultiOutputClassifier(LogisticRegression()).fit(X[:200], y[:200])
    sites = np.repeat(["A", "B", "C", "D"], 100)
    flat = np.column_stack([own[:, 1] for own in model.predict_proba(X)])
    both = Controller(model.predict_proba, target_level=0.8, rng=1).calibrate(
        X[200:], y[200:], sites=sites
    )
    alone = Controller(identity, target_level=0.8, rng=1).calibrate(
        flat[200:], y[200:], sites=sites
    )
    pairs = Controller(lambda p: np.stack([1 - p, p], axis=2), target_level=0.8, rng=1)
    pairs.calibrate(flat[200:], y[200:], sites=sites)
    assert both.calibration_ == alone.calibration_ == pairs.calibration_
    np.testing.assert_array_equal(both.predict(X[:9]), alone.predict(flat[:9]))
    for promise in ("mixture", "each-site"):
        unlike = Controller(identity, target_level=0.8, promise=promise).calibrate(
            flat[200:], y[200:], sites=sites
        )
        assert unlike.calibration_.plan.promise == promise
    groups = np.array(["old", "young"] * 200)
    grouped = Controller(identity, target_level=0.8, rng=1).calibrate(
        flat[200:], y[200:], sites=sites, groups=groups
    )
    assert set(grouped.best_predict_param) == {"old", "young"}
    chosen = grouped.predict(flat[:4], groups=["old"] * 4)[:, :, 0]
    np.testing.assert_array_equal(
        chosen, 1 - flat[:4] <= grouped.calibration_["old"].threshold
    )
    images = [own.reshape(2, 2) for own in flat[200:]]
    masks = [own.reshape(2, 2) for own in y[200:]]
    listed = Controller(identity, target_level=0.8, rng=1).calibrate(
        images, masks, sites=sites
    )
    assert listed.calibration_.threshold == alone.calibration_.threshold
    assert [mask.shape for mask in listed.predict(images[:3])] == [(2, 2, 1)] * 3


def test_scikit_learns_conventions():
    p, y = some_cases(4)
    controller = Controller(identity, target_level=0.7, rng=0)
    for use in (lambda: controller.predict(p), lambda: controller.best_predict_param):
        with pytest.raises(NotFittedError, match="is not calibrated: call calibrate"):
            use()
    with pytest.raises(NotFittedError):
        check_is_fitted(controller)
    assert controller.calibrate(p, y, sites=["A"] * 300) is controller
    check_is_fitted(controller)
    copy = clone(controller)
    assert copy.get_params() == controller.get_params()
    assert not hasattr(copy, "calibration_")
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(controller)).predict(p),
        controller.predict(p),
    )
    assert copy.set_params(target_level=0.9).target_level == 0.9


def test_what_does_not_fit_is_refused():
    p, y = some_cases(5)
    sites = ["A"] * 300
    with pytest.raises(
        ValueError,
        match="risk must be one of 'recall', 'false_negative_rate', 'coverage', 'prec",
    ):
        Controller(identity, "accuracy").calibrate(p, y, sites=sites)
    with pytest.raises(
        ValueError, match=r"y must have shape \(n, n_labels\) or \(n, height, width\)"
    ):
        Controller(identity).calibrate(p, y[:, 0], sites=sites)
    with pytest.raises(TypeError, match="predict_function must be callable"):
        Controller(LogisticRegression()).calibrate(p, y, sites=sites)
    with pytest.raises(
        ValueError, match="groups and ledgers must be left out with predict_params"
    ):
        Controller(identity, predict_params=PARAMS).calibrate(
            p, y, sites=sites, groups=sites
        )
    with pytest.raises(ValueError, match="curve must be left out with predict_params"):
        Controller(identity, predict_params=PARAMS, curve=fc.Bins([0.5, 1])).calibrate(
            p, y, sites=sites
        )
    with pytest.raises(ValueError, match="confidence_level must be a number"):
        Controller(identity, confidence_level=1.5).calibrate(p, y, sites=sites)
    for wrong in (0, 1, 1.5, [0.8, 2]):
        with pytest.raises(
            ValueError, match=r"target_level must be a number in \(0, 1\)"
        ):
            Controller(identity, target_level=wrong).calibrate(p, y, sites=sites)
    for wrong in ([], [0.5], [0.2, np.nan], [0.2, 1.5], [0.0, 1e-17]):
        with pytest.raises(
            ValueError,
            match="predict_params must hold two or more numbers from 0 to 1, got",
        ):
            Controller(identity, predict_params=wrong).calibrate(p, y, sites=sites)
    with pytest.raises(
        ValueError, match=r"\(n, n_labels\) or \(n, n_labels, 2\), got \(300, 5, 3\)"
    ):
        Controller(lambda p: np.stack([p, p, p], axis=2)).calibrate(p, y, sites=sites)


def test_cases_without_truth_are_refused_as_mapie_does_unless_they_count_as_found():
    """A tumour in 8 % of the images: with a risk of 10 %, selecting nothing would
    do.
    """
    rng = np.random.default_rng(6)
    p = rng.random((400, 4, 4))
    y = (rng.random(p.shape) < 0.5) & (rng.random(400) < 0.08)[:, None, None]
    sites, empty = ["A", "B"] * 200, ~y.any(axis=(1, 2))
    first, n_empty = int(np.argmax(empty)), int(empty.sum())
    message = (
        f"y must have a true label, or pixel, in each case; {n_empty} of 400 have none"
        f" .first: case {first}"
    )
    for truth, images in (
        (y, p),
        (list(y), list(p)),
        (y.reshape(400, 16), p.reshape(400, 16)),
    ):
        for params in (None, PARAMS):
            with pytest.raises(ValueError, match=message):
                Controller(identity, predict_params=params).calibrate(
                    images, truth, sites=sites
                )
    found = Controller(identity, target_level=0.9, empty="found", rng=0)
    with pytest.warns(
        UserWarning, match="of the cases have nothing to find, or it is found at every"
    ):
        found.calibrate(p, y, sites=sites)
    assert not found.predict(p).any()
    kept = Controller(identity, target_level=0.9, rng=0).calibrate(
        p[~empty], y[~empty], sites=np.array(sites)[~empty]
    )
    assert kept.predict(p).mean() > 0.8
    with pytest.raises(
        ValueError, match="empty must be one of 'refused', 'found', got 'ignored'"
    ):
        Controller(identity, empty="ignored").calibrate(p, y, sites=sites)


@pytest.mark.parametrize("steps", [10, 100])
@pytest.mark.parametrize("params", [None, "rounded", "spaced"])
def test_the_best_parameter_decides_as_predict_does_on_probabilities_with_ties(
    steps, params
):
    """Forests give multiples of 0.1 and 0.01; 1 - p rounds, so that 1 - (1 - p) may
    exceed p.
    """
    rng = np.random.default_rng(7)
    p = rng.integers(0, steps, size=(400, 4)) / steps
    y = (rng.random(p.shape) < p) | (p == p.max(axis=1, keepdims=True))
    sites, every = ["A", "B"] * 200, np.arange(steps + 1)[:, np.newaxis] / steps
    chosen = {
        None: None,
        "rounded": every[:, 0],
        "spaced": np.linspace(0, 1, steps + 1) * (1 + 2**-52),
    }[params]
    chosen = None if chosen is None else np.minimum(chosen, 1)
    targets = np.arange(0.4, 0.97, 0.03).round(2).tolist()
    labels = Controller(
        identity, target_level=targets, predict_params=chosen, rng=0
    ).calibrate(p, y, sites=sites)
    sums = p.sum(axis=1, keepdims=True)
    shares = np.floor(p / sums * steps) / steps
    shares[:, 0] += 1 - shares.sum(axis=1)
    classes = Controller(
        identity, "coverage", target_level=targets, predict_params=chosen
    )
    classes.calibrate(shares, shares.argmax(axis=1), sites=sites)
    for controller, new in ((labels, every), (labels, p), (classes, shares)):
        best = controller.best_predict_param
        np.testing.assert_array_equal(
            new[:, :, np.newaxis] >= best, controller.predict(new)
        )
        if chosen is not None and controller is labels:
            assert set(best) <= {*chosen, -np.inf}
    assert len(set(labels.best_predict_param)) >= 4
    losses = [missed(p, y.astype(int), param) for param in labels.best_predict_param]
    if chosen is not None:  # conformal risk control on the pooled cases, by brute force
        for target, loss in zip(targets, losses, strict=True):
            own = [missed(p, y.astype(int), param) for param in chosen]
            allowed = [x for x in own if (400 * x + 1) / 401 <= 1 - target + 1e-9]
            assert abs(loss - max(allowed, default=0)) < 1e-3


def test_labels_of_answers_are_columns_or_classes_of_the_model():
    rng = np.random.default_rng(8)
    q = rng.random(600)
    y = (rng.random(600) < q).astype(int)
    two, sites = np.column_stack([1 - q, q]), ["A", "B", "C"] * 200
    options = {"target_level": 0.6, "confidence_level": 0.9}
    precision = Controller(identity, "precision", **options).calibrate(
        two, y, sites=sites
    )
    assert np.isfinite(precision.best_predict_param).all()
    for risk in ("precision", "selective_risk", "coverage"):
        for labels in (y + 1, 2 * y - 1, np.array(["no", "yes"])[y], y + 0.5):
            with pytest.raises(
                ValueError,
                match="y must hold the numbers of classes, from 0 to 1, of a model",
            ):
                Controller(identity, risk, **options).calibrate(
                    two, labels, sites=sites
                )
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            Controller(identity, risk, **options).calibrate(two, y[1:], sites=sites)
    for columns in (two[:, :1], np.column_stack([two / 2, q / 2])):
        with pytest.raises(
            ValueError, match="prediction must have two columns for 'precision', got"
        ):
            Controller(identity, "precision", **options).calibrate(
                columns, y, sites=sites
            )
    with pytest.raises(
        ValueError, match="prediction must hold probabilities, from 0 to 1"
    ):
        Controller(identity, "precision", **options).calibrate(
            np.where(two > 0.9, np.nan, two), y, sites=sites
        )
    named = LogisticRegression().fit(q[:, np.newaxis], np.array(["no", "yes"])[y])
    known = Controller(named.predict_proba, "precision", **options)
    known.calibrate(q[:, np.newaxis], np.array(["no", "yes"])[y], sites=sites)
    assert np.isfinite(known.best_predict_param).all()
