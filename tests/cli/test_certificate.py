"""``fedconformal certificate``: a page, or one line."""

import json

import pytest

import fedconformal as fc
from fedconformal.web import certificate


@pytest.fixture
def calibration(desk, reported, run):
    run("calibrate", "plan.json", *reported(), "-o", "calibration.json")
    return fc.Calibration.read("calibration.json")


def test_it_writes_the_page(desk, run, calibration):
    order = ["certificate", "calibration.json", "-o", "page.html"]
    assert run(*order).err == "wrote page.html\n"
    assert (desk / "page.html").read_text(encoding="utf-8") == certificate(calibration)
    assert run(*order, code=2).err == "fedconformal: page.html: exists already; --force overwrites it\n"
    assert (desk / "page.html").read_text(encoding="utf-8") == certificate(calibration)


@pytest.mark.parametrize("content", ["", "{}", "[]", "not JSON"])
def test_a_bad_file_is_one_line(desk, run, content):
    (desk / "calibration.json").write_text(content)
    assert run("certificate", "calibration.json", code=2).err.startswith("fedconformal: calibration.json: ")
    assert not (desk / "certificate.html").exists()


def test_a_forged_file_is_one_line(desk, run, calibration):
    content = json.loads(calibration.to_json())
    content["parts"][0]["design"]["levels"][0]["votes"] = 1
    del content["digest"]
    forged = fc.Calibration.model_validate_json(json.dumps(content))
    (desk / "calibration.json").write_text(forged.to_json())
    error = run("certificate", "calibration.json", code=2).err
    assert error.startswith("fedconformal: this calibration gets no certificate")
    assert not (desk / "certificate.html").exists()
