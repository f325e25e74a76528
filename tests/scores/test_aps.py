"""Adaptive prediction sets."""

import numpy as np
from score_examples import labels_drawn_from, scores_of_all_labels

from fedconformal.scores import APS


def test_equal_probabilities_rank_by_class_index():
    row = [[0.25, 0.25, 0.25, 0.25]]
    assert scores_of_all_labels(APS(), np.array(row))[0].tolist() == [0.25, 0.5, 0.75, 1.0]
    assert APS().set(row, 0.5).tolist() == [[True, True, False, False]]


def test_a_generator_stands_for_the_numbers_it_draws():
    prediction = np.random.default_rng(0).dirichlet(np.ones(4), 20)
    y, score = np.arange(20) % 4, APS(randomized=True)
    u = np.random.default_rng(5).random(20)
    drawn = score.score(y, prediction, u=np.random.default_rng(5))
    np.testing.assert_array_equal(drawn, score.score(y, prediction, u=u))
    sets = score.set(prediction, 0.7, u=np.random.default_rng(5))
    np.testing.assert_array_equal(sets, score.set(prediction, 0.7, u=u))


def test_all_thresholds_share_the_draw_of_their_row():
    prediction = np.random.default_rng(4).dirichlet(np.ones(4), 50)
    sets = APS(randomized=True).set(prediction, [0.7, 0.7], u=np.random.default_rng(0))
    np.testing.assert_array_equal(sets[:, :, 0], sets[:, :, 1])


def test_randomized_aps_with_the_true_probabilities_covers_with_probability_threshold():
    """200,000 rows; by Hoeffding each level is off by more than 0.0065 with probability < 1e-7."""
    rng = np.random.default_rng(7)
    prediction = rng.dirichlet(np.full(6, 0.5), 200_000)
    y = labels_drawn_from(prediction, rng)
    levels = np.array([0.1, 0.5, 0.9])
    sets = APS(randomized=True).set(prediction, levels, u=rng)
    coverage = sets[np.arange(len(y)), y].mean(axis=0)
    assert np.abs(coverage - levels).max() < 0.0065
