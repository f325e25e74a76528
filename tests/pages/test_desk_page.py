"""The desk in a real browser: plan, drop the reports, calibrate, open the certificate,
drop the checks.
"""

import subprocess
import sys

import numpy as np
import pytest
from browsing import planner, resize, serious_problems, wait_for_plan
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import fedconformal as fc
from fedconformal.pages import create_app
from fedconformal.pages._server import background

SIZES = {"north": 120, "south": 40, "west": 377, "east": 88}  # as the form begins
STATE = "#spread=list&score=absolute&fact-name=length of stay&fact-unit=days&coverage=0"
RNG_SEED = 7


SHOWN = (
    "const desk = document.querySelector('#desk:not([aria-busy=true])'); return desk ?"
    " desk.innerText : ''"
)


def until_shown(page, words):
    """Wait until the desk, as it is after the last request, has these words."""

    def is_shown(_):
        return words in page.execute_script(SHOWN).replace("\N{NO-BREAK SPACE}", " ")

    WebDriverWait(page, 3600, poll_frequency=0.05).until(is_shown)


def drop(page, *paths):
    page.find_element(By.ID, "answers").send_keys("\n".join(map(str, paths)))


def save_plan(page, url):
    page.get("about:blank")
    page.get(url + STATE)
    wait_for_plan(page)
    page.find_element(By.ID, "save").click()
    until_shown(page, "No site answered, 4 missing: east, north, south, west")


def problem(page):
    return page.find_element(By.ID, "problem").text


@pytest.mark.slow
def test_from_the_plan_to_the_certificate(driver, tmp_path):
    resize(driver, 1280, 900)
    folder, rng = tmp_path / "stay", np.random.default_rng(RNG_SEED)
    with background(create_app(folder=folder)) as url:
        save_plan(driver, url)
        plan = fc.Plan.read(folder / "plan.json")
        assert plan == fc.plan(
            n_points=SIZES,
            score="absolute",
            terms={"name": "length of stay", "unit": "days"},
        )
        paths = [tmp_path / f"{site}.json" for site in SIZES]
        for path in paths:
            path.write_text(
                fc.report(
                    plan, rng.gamma(2.0, size=SIZES[path.stem]), site=path.stem
                ).to_json()
            )
        table = tmp_path / "table.csv"
        table.write_text("y,prediction\n1,2\n3,4\n")
        drop(driver, *paths[:3], table)
        until_shown(driver, "3 sites answered, 1 missing: east")
        assert (
            problem(driver) == "table.csv: this is a table, not a report, which is JSON"
        )
        driver.find_element(By.ID, "calibrate").send_keys(Keys.ENTER)
        until_shown(
            driver, "were verified by independent code, which recomputed the threshold"
        )
        assert not driver.find_element(By.ID, "problem").is_displayed()
        calibration = fc.Calibration.read(folder / "calibration.json")
        assert calibration == fc.calibrate(
            plan, [fc.Report.read(path) for path in paths[:3]]
        )
        driver.get(
            driver.find_element(By.LINK_TEXT, "Open the certificate").get_attribute(
                "href"
            )
        )
        assert (
            repr(calibration.threshold) in driver.find_element(By.TAG_NAME, "main").text
        )
        assert driver.execute_script(
            "return getComputedStyle(document.querySelector('.card')).display"
        )
        driver.get(url)
        until_shown(driver, "3 sites answered, 1 missing: east")


def fedconformal(*words, cwd):
    command = [sys.executable, "-m", "fedconformal", *map(str, words)]
    subprocess.run(command, check=True, capture_output=True, cwd=cwd)


@pytest.mark.nightly
def test_the_whole_story_over_two_sittings(driver, axe, tmp_path):
    """Four sites answer in their browsers, and check later; the coordinator stops in
    between.
    """
    rng = np.random.default_rng(RNG_SEED)
    folder, mail = tmp_path / "stay", tmp_path / "mail"
    mail.mkdir()
    driver.get_log("browser")  # of other tests
    options = ("--target", "y", "--prediction", "prediction", "--yes")

    def write_cases(site, n, scale=1.0):
        truth, error = (
            rng.gamma(9.0, 10.0, size=n),
            rng.normal(scale=8.0 * scale, size=n),
        )
        table = np.column_stack([truth, truth + error])
        np.savetxt(
            mail / f"{site}.csv",
            table,
            header="y,prediction",
            delimiter=",",
            comments="",
        )

    with planner(str(folder)) as url:
        save_plan(driver, url)
        look_at(driver, axe)
        for name in ("plan.json", "answer.html"):
            driver.find_element(
                By.CSS_SELECTOR, f'details a[href="/files/{name}"]'
            ).click()
            downloaded(driver, name, mail)
        for site, n in SIZES.items():
            write_cases(site, n)
            answer_in_browser(driver, mail, site)
        driver.get(url)
        until_shown(driver, "No site answered")
        drop(driver, mail / "north.json", mail / "south.json")
        until_shown(driver, "2 sites answered, 2 missing: east, west")
    with planner(str(folder)) as url:
        driver.get(url)
        until_shown(driver, "2 sites answered, 2 missing: east, west")
        drop(driver, mail / "west.json", mail / "east.json", mail / "north.json")
        until_shown(driver, "4 sites answered")
        look_at(driver, axe)
        driver.find_element(By.ID, "calibrate").click()
        until_shown(driver, "were verified by independent code")
        look_at(driver, axe)
        for site, scale in zip(SIZES, (1.0, 1.0, 2.0, 1.0), strict=True):
            write_cases(site, 300, scale)
            order = (
                "check",
                folder / "calibration.json",
                f"{site}.csv",
                "--site",
                site,
                *options,
            )
            fedconformal(*order, "-o", f"check-{site}.json", cwd=mail)
        drop(driver, *mail.glob("check-*.json"))
        until_shown(driver, "Coverage falls short at: west")
        driver.find_element(By.ID, "certify").click()
        until_shown(driver, "Coverage falls short at: west")
        look_at(driver, axe)
        assert [line["message"] for line in driver.get_log("browser")] == []
    fedconformal("verify", "calibration.json", "--reports", "reports", cwd=folder)
    fedconformal(
        "calibrate", "plan.json", "reports", "-o", tmp_path / "again.json", cwd=folder
    )
    again = fc.Calibration.read(tmp_path / "again.json")
    assert again == fc.Calibration.read(folder / "calibration.json")
    assert "Coverage falls short at: west" in (folder / "certificate.html").read_text()


def downloaded(page, name, folder):
    path = page.downloads / name
    WebDriverWait(page, 3600, poll_frequency=0.05).until(lambda _: path.exists())
    path.rename(folder / name)


def answer_in_browser(page, folder, site):
    """Answer the plan on the page that came with it, from a table."""
    page.get((folder / "answer.html").as_uri())
    page.find_element(By.ID, "plan-file").send_keys(str(folder / "plan.json"))
    wait = WebDriverWait(page, 3600, poll_frequency=0.05)
    wait.until(lambda _: page.find_element(By.ID, "site").is_displayed())
    page.find_element(By.ID, "site").send_keys(site)
    page.find_element(By.ID, "cases-file").send_keys(str(folder / f"{site}.csv"))
    wait.until(lambda _: page.find_element(By.ID, "save").is_displayed())
    page.find_element(By.ID, "save").click()
    downloaded(page, f"{site}.json", folder)


def look_at(page, axe):
    """It fits the width of a phone, and has no serious problem of accessibility."""
    for width in (1280, 390):
        resize(page, width, 900)
        assert (
            page.execute_script("return document.documentElement.scrollWidth") <= width
        )
        assert serious_problems(page, axe) == []
    resize(page, 1280, 900)
