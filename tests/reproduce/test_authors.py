"""The authors' published ridge results."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedconformal.experiments import DATA_FOLDER, DataSet, available, load
from fedconformal.experiments import _authors as study

FOLDER = os.environ.get(DATA_FOLDER)
here = available(folder=Path(FOLDER)) if FOLDER else []


@pytest.mark.parametrize("name", study.PUBLISHED)
def test_their_numbers_come_out_to_the_last_digit(name):
    if name not in here:
        pytest.skip(f"{name} is not here")
    lines = study.side_by_side(study.authors(load(name, folder=Path(FOLDER))))
    for _, method, _, coverage, our_coverage, length, our_length in lines:
        if coverage == "not published":
            assert method == "FedCP-Avg"  # theirs takes the next larger score
        else:
            assert (our_coverage, our_length) == (coverage, length)
    assert len(lines) == 4


def test_their_average_is_never_below_that_of_the_text():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 3))
    made = DataSet("concrete", X, X @ [1.0, 2.0, 3.0] + rng.normal(size=1100), (40, 10), (10, 40))
    rows = study.authors(made, n_seeds=2)
    by_method = {row["method"]: row for row in rows if row["seed"] == 2}
    assert by_method["FedCP-Avg, rank + 1"]["length"] > by_method["FedCP-Avg"]["length"]
    assert by_method["FedCP-Avg"]["published_coverage"] is None
    assert by_method["FedCP-Avg, rank + 1"]["published_length"] == 1.121
