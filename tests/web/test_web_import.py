"""The planner's mathematics and the certificate need no extra; serving names the one it needs."""

import subprocess
import sys

import fedconformal as fc

WITHOUT = """
import sys
for name in ("anyio", "starlette", "uvicorn"):
    sys.modules[name] = None
"""


def run(code):
    done = subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_questions_are_answered():
    asked = "PlanRequest(sites=10, points=79)"
    printed = run(
        f"from fedconformal.web import PlanRequest, answer_plan; print(answer_plan({asked}).steps[0])"
    )
    assert printed == "Each site sorts its 79 scores and sends number 71 from the smallest.\n"


def test_wishes_are_answered_and_the_api_is_described():
    wish = 'WishRequest(sites=3, points=20, wish="low", value=0.8)'
    code = (
        f"from fedconformal import web; print(web.answer_wish(web.{wish}).met, len(web.openapi()['paths']))"
    )
    met = fc.plan(3, 20).law.ppf(0.05) >= 0.8
    assert run(code) == f"{met} 4\n"


def test_certificates_are_written():
    code = """
import fedconformal as fc
plan = fc.plan(n_sites=3, n_points=19)
calibration = fc.calibrate(plan, [fc.report(plan, range(19), site=name) for name in "ABC"])
print(fc.web.certificate(calibration)[:15])
"""
    assert run(code) == "<!doctype html>\n"


def test_nothing_that_serves_is_loaded_before_it_is_asked_for():
    code = "import sys, fedconformal.web; print([name for name in sys.modules if name.startswith('uvicorn')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_serving_names_the_extra():
    for name in ("serve", "background", "create_app"):
        code = f"""
from fedconformal import web
try:
    web.{name}
except ImportError as error:
    print(error)
"""
        assert run(code) == "anyio is not installed: pip install 'fedconformal[web]'\n"
