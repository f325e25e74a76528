"""The planner's mathematics and the certificate need no extra; serving names the one it needs."""

import json
import subprocess
import sys

import pytest

import fedconformal as fc

CODE = """
import json, sys
for name in ("anyio", "starlette", "uvicorn"):
    sys.modules[name] = None
import fedconformal as fc
from fedconformal import web

step = web.answer_plan(web.PlanRequest(sites=10, points=79)).steps[0]
met = web.answer_wish(web.WishRequest(sites=3, points=20, wish="low", value=0.8)).met
plan = fc.plan(n_sites=3, n_points=19)
calibration = fc.calibrate(plan, [fc.report(plan, range(19), site=name) for name in "ABC"])
refused = {}
for name in ("serve", "background", "create_app"):
    try:
        getattr(web, name)
    except ImportError as error:
        refused[name] = str(error)
page, paths = web.certificate(calibration), len(web.openapi()["paths"])
print(json.dumps({"step": step, "met": met, "paths": paths, "page": page, "refused": refused}))
"""


@pytest.fixture(scope="module")
def without():
    """What a process found in which nothing that serves is installed."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_questions_are_answered(without):
    assert without["step"] == "Each site sorts its 79 scores and sends number 71 from the smallest."


def test_wishes_are_answered_and_the_api_is_described(without):
    assert without["met"] == (fc.plan(3, 20).law.ppf(0.05) >= 0.8)
    assert without["paths"] == 4


def test_certificates_are_written(without):
    assert without["page"].startswith("<!doctype html>")


@pytest.mark.slow
def test_nothing_that_serves_is_loaded_before_it_is_asked_for():
    code = "import sys, fedconformal.web; print([name for name in sys.modules if name.startswith('uvicorn')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_serving_names_the_extra(without):
    sentence = "anyio is not installed: pip install 'fedconformal[web]'"
    assert without["refused"] == dict.fromkeys(("serve", "background", "create_app"), sentence)
