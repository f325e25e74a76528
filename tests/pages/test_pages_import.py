"""The certificate needs Jinja2, serving the extra ``web``; what is missing is named
with a command.
"""

import json
import subprocess
import sys

import pytest

from fedconformal._extras import explain_missing

pytestmark = pytest.mark.slow

CODE = """
import json, sys
sys.modules.update(dict.fromkeys({blocked}))
import fedconformal as fc
from fedconformal import pages

plan = fc.plan(n_sites=3, n_points=19)
reports = [fc.report(plan, range(19), site=name) for name in "ABC"]
calibration = fc.calibrate(plan, reports)
answers = {{"notebook": (plan._repr_html_(), calibration._repr_html_())}}
for name, ask in [
    ("certificate", lambda: pages.certificate(calibration)[:15]),
    ("serve", lambda: str(pages.serve)),
    ("create_app", lambda: str(pages.create_app)),
]:
    try:
        answers[name] = ask()
    except ImportError as error:
        answers[name] = str(error)
answers["loaded"] = [name for name in sys.modules if name.startswith("uvicorn.")]
print(json.dumps(answers))
"""


def answers_without(*blocked):
    code = CODE.format(blocked=blocked)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_without_what_serves():
    answers = answers_without("anyio", "starlette", "uvicorn")
    assert answers["certificate"] == "<!doctype html>"
    assert all("fedconformal-view" in view for view in answers["notebook"])
    sentence = explain_missing("anyio", "web")
    assert {answers[name] for name in ("serve", "create_app")} == {sentence}
    assert answers["loaded"] == []


@pytest.mark.slow
def test_without_templates():
    answers = answers_without("jinja2")
    assert answers["certificate"] == explain_missing("jinja2", "cli")
    assert answers["serve"] == explain_missing("jinja2", "web")
    assert answers["notebook"] == [None, None]  # a line of text is shown instead
