"""Rows that `fit` sets aside for calibration, and arguments that it passes on to the model."""

from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import _check_method_params, _num_samples

from fedconformal import _validation
from fedconformal.protocol import rows_by_site

_FITTING = 2  # the stream of random numbers by which rows are set aside


def generator(rng: Any, stream: int) -> np.random.Generator:
    """Return the source of random numbers; an int gives a fixed one for each stream."""
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(None if rng is None else [stream, _validation.integer("rng", rng, low=0)])


def set_aside(
    X: Any, y: Any, sites: Any, groups: Any, fit_params: dict[str, Any], *, share: float, rng: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split into arguments for training and for calibration: a share of each site's rows, one at least."""
    part = float(_validation.fraction("calibration_size", share))
    source, n = generator(rng, _FITTING), _num_samples(X)
    kept = [
        source.permutation(rows)[: max(1, round(part * len(rows)))]
        for rows in rows_by_site(sites, n).values()
    ]
    calibration = np.sort(np.concatenate(kept))
    training = np.setdiff1d(np.arange(n), calibration)
    if training.size == 0:
        raise ValueError(f"calibration_size must leave rows for training, got {share} of {n} rows")

    def part_of(values: Any, rows: Any) -> Any:
        return None if values is None else _safe_indexing(values, rows)

    return (
        {
            "X": part_of(X, training),
            "y": part_of(y, training),
            "fit_params": _check_method_params(X, fit_params, training),
        },
        {
            "X": part_of(X, calibration),
            "y": part_of(y, calibration),
            "sites": part_of(sites, calibration),
            "groups": part_of(groups, calibration),
        },
    )


def routed_params(owner: Any, fit_params: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the model's fit: those it requests, where metadata routing is enabled."""
    if not get_config()["enable_metadata_routing"]:
        return fit_params
    return dict(process_routing(owner, "fit", **fit_params).estimator.fit)
