"""The Check: how many new cases a site finds inside the published sets."""

import pytest

from fedconformal.documents import Check

DIGEST = "sha256:" + "0" * 64


def check(**changes):
    fields = {"calibration": DIGEST, "site": "A", "n": 25, "epsilon": None, "covered": (20, 25)}
    return Check(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"covered": (26,)}, "between 0 and n = 25"),
        ({"covered": ()}, "covered"),
        ({"n": 0}, "n"),
        ({"epsilon": 1e9}, "epsilon"),
        ({"calibration": "x"}, "calibration"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        check(**changes)
