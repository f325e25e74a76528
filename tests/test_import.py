import subprocess
import sys

import pytest

import fedconformal as fc


def python(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


CORE = (
    "from fedconformal import CoverageLaw, Ledger, Plan, calibrate, plan, report,"
    " scores"
)


def test_the_core_imports_nothing_heavy():
    loaded = set(python(f"import sys; {CORE}; print(*sys.modules)"))
    packages = {name.partition(".")[0] for name in loaded}
    assert packages.isdisjoint(
        {"sklearn", "matplotlib", "flwr", "nvflare", "opendp", "pandas", "polars"}
    )
    assert packages.isdisjoint(
        {"typer", "rich", "cryptography", "starlette", "uvicorn", "anyio", "jinja2"}
    )
    assert loaded.isdisjoint({"scipy.stats", "scipy.optimize", "scipy.linalg"})


ANSWER = """
import logging, sys
from fedconformal import rounds
who = lambda plan: rounds.Site("A")
log = logging.getLogger("A")
text = rounds.{question}.answer({packed!r}, lambda plan: range(40), who, log=log)
assert isinstance(text, str), text
print(*sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize("question", ["CALIBRATE", "CHECK"])
def test_a_site_s_answer_imports_nothing_heavy(question):
    """Flower starts a process for every message."""
    plan = fc.plan(n_sites=3, n_points=40)
    calibration = fc.calibrate(
        plan, [fc.report(plan, range(40), site=site) for site in "ABC"]
    )
    asked = {
        "CALIBRATE": fc.rounds.pack_plan(plan),
        "CHECK": fc.rounds.pack_calibration(calibration),
    }
    loaded = set(python(ANSWER.format(question=question, packed=asked[question])))
    assert loaded.isdisjoint(
        {"scipy.stats", "scipy.optimize", "scipy.linalg", "scipy.fft"}
    )


def test_nothing_is_loaded_before_it_is_asked_for():
    loaded = python("import sys, fedconformal; print(*sys.modules)")
    assert {"numpy", "scipy", "pydantic"}.isdisjoint(loaded)


def test_everything_that_is_named_can_be_asked_for():
    import fedconformal

    assert dir(fedconformal) == sorted(fedconformal.__all__)
    for name in set(fedconformal.__all__) - {
        "flower",
        "nvflare",
    }:  # which take seconds to load
        assert getattr(fedconformal, name) is getattr(fedconformal, name)


def test_what_does_not_exist_is_an_attribute_error():
    import fedconformal

    with pytest.raises(AttributeError, match="nonsense"):
        fedconformal.nonsense  # noqa: B018


def test_what_is_not_installed_names_the_extra():
    from fedconformal import _extras

    with pytest.raises(
        _extras.MissingExtraError, match=r"run pip install '\.\[plots\]' in your clone"
    ):
        _extras.need("no_such_package.inside", extra="plots")
