"""The planner in a real browser: drag, type, paste, download, look."""

import json
import shlex
import subprocess
import sys
from urllib.parse import urlsplit

import numpy as np
import pytest
from browsing import resize, serious_problems, wait_for_plan
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

import fedconformal as fc
from fedconformal.pages._server import background
from fedconformal.planning import PROMISES

nightly = pytest.mark.nightly

NO_SEARCH = "coverage=0"
"""In a link: a coverage that is refused at once, for with private reports a search
takes many seconds.
"""


@pytest.fixture(scope="module")
def address():
    with background() as url:
        yield url


@pytest.fixture
def page(driver, address):
    resize(driver, 1280, 900)
    open_at(driver, address)
    return driver


def open_at(driver, url):
    driver.get(
        "about:blank"
    )  # a change of the part after # alone would not load the page again
    driver.get(url)
    wait_for_plan(driver)


def text(page, name):
    return page.find_element(By.ID, name).text.replace("\N{NO-BREAK SPACE}", " ")


def retype(page, name, value):
    field = page.find_element(By.ID, name)
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(value)


def choose(page, value):
    page.find_element(By.CSS_SELECTOR, f"input[value={value}]").click()


def asked(page):
    return json.loads(page.find_element(By.ID, "plan").get_attribute("data-asked"))


def until(page, condition):
    WebDriverWait(page, 3600, poll_frequency=0.05).until(lambda _: condition())


def paste(page, content):
    page.execute_script(
        "const list = document.getElementById('list'); list.value = arguments[0];"
        "list.dispatchEvent(new Event('input', {bubbles: true}))",
        content,
    )


def downloaded(page):
    page.find_element(By.ID, "download").click()
    path = page.downloads / "plan.json"
    until(page, path.exists)
    plan = fc.Plan.read(path)
    path.unlink()
    return plan


def fedconformal(*words, **options):
    command = [sys.executable, "-m", "fedconformal", *words]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, **options
    ).stdout


@pytest.mark.slow
def test_a_plan_is_asked_for_shown_and_downloaded(page, address):
    assert (
        text(page, "headline")
        == "On average, the truth lies inside the prediction set for at least 90 % of"
        " new cases, if the model errs equally at every site."
    )
    assert "With 3 numbers per site" in text(page, "rows")
    assert page.find_elements(By.CSS_SELECTOR, "#picture svg path.law-line")
    before = asked(page)["points"]
    ActionChains(page).drag_and_drop_by_offset(
        page.find_element(By.ID, "points-slider"), 60, 0
    ).perform()
    until(page, lambda: asked(page)["points"] > before)
    retype(page, "sites", "0")
    until(
        page,
        lambda: (
            "Please give a whole number from 1 to 10,000." in text(page, "sites-error")
        ),
    )
    assert page.find_element(By.ID, "sites").get_attribute("aria-invalid") == "true"
    assert not page.find_element(By.ID, "download").is_enabled()
    retype(page, "sites", "12")
    until(page, lambda: asked(page)["sites"] == 12)
    wait_for_plan(page)
    size = int(page.find_element(By.ID, "points").get_attribute("value"))
    assert f"--sites 12 --points {size} " in text(page, "command")
    assert downloaded(page) == fc.plan(12, size)
    until(
        page,
        lambda: (
            len(page.find_elements(By.CSS_SELECTOR, "#cards .card"))
            == len(list(PROMISES))
        ),
    )
    assert [line["message"] for line in page.get_log("browser")] == []
    entries = page.execute_script(
        "return [...performance.getEntriesByType('resource'),"
        " ...performance.getEntriesByType('navigation')].map(entry => entry.name)"
    )
    assert {urlsplit(name).netloc for name in entries} == {urlsplit(address).netloc}


LISTS = [
    ("120\n40\n377", [120, 40, 377], None),
    ("120, 40; 377", [120, 40, 377], None),
    ("north=120\nsouth = 40", [120, 40], ["north", "south"]),
    ("north=120, St. Mary's=40", [120, 40], ["north", "St. Mary's"]),
    ("Hospital\tCases\nnorth\t120\nSt Mary\t40", [120, 40], ["north", "St Mary"]),
    ('site,n\n"Ward 3, north",120\nsouth,40\n', [120, 40], ["Ward 3, north", "south"]),
    ("region;site;n\nEU;north;120\nEU;south;40", [120, 40], ["north", "south"]),
    ("St Mary 120\nsouth 40", [120, 40], ["St Mary", "south"]),
]
# nothing that may be a separator of thousands is read as something else
WRONG_LISTS = [
    ("120, forty", "“forty” is not a number of cases"),
    ("north=120\n40", "Please name all sites, or none"),
    ("1,200\n3,400", "Please write “1,200” without a separator of thousands"),
    (
        "north\t1,200\nsouth\t3,400",
        "Please write “1,200” without a separator of thousands",
    ),
    (
        "north\t1 200\nsouth\t40",
        "Please write “1 200” without a separator of thousands",
    ),
    (
        "Name;Anzahl\nWien;1.200",
        "Please write “1.200” without a separator of thousands",
    ),
    ("1,200", "“1,200” may be one number or several"),
    ("1,200, 3,400", "“1,200” may be one number or several"),
    ("north,1,200\nsouth,3,400", "“north,1,200” has too many columns"),
    ("north 1 200\nsouth 40", "Please write “north 1 200” as name=number"),
    ("north=120\nsouth=40\nnorth=60", "The name “north” is given more than once"),
    ("north=1200000", "Here a site may have up to 1,000,000 cases, not 1200000"),
    ("", "Please give at least one number"),
]


@nightly
def test_sizes_and_names_can_be_pasted_in_many_forms(page):
    choose(page, "list")
    for content, sizes, names in LISTS:
        paste(page, content)
        until(
            page,
            lambda want=(sizes, names): (
                (asked(page)["points"], asked(page).get("names")) == want
            ),
        )
        named = "" if names is None else " with names"
        assert text(page, "list-count") == f"{len(sizes)} sites{named}"
    for content, sentence in WRONG_LISTS:
        paste(page, content)
        until(page, lambda want=sentence: want in text(page, "list-error"))


@nightly
def test_a_plan_with_names_and_a_score_is_answered_from_predictions(page, tmp_path):
    choose(page, "list")
    paste(page, "north=120\nSt. Mary's=60")
    Select(page.find_element(By.ID, "score")).select_by_value("absolute")
    until(
        page, lambda: asked(page).get("score") == "absolute" and "names" in asked(page)
    )
    wait_for_plan(page)
    plan = downloaded(page)
    assert plan == fc.plan(n_points={"north": 120, "St. Mary's": 60}, score="absolute")
    (tmp_path / "plan.json").write_text(plan.to_json())
    table = np.column_stack([np.arange(120.0), np.zeros(120)])
    np.savetxt(
        tmp_path / "cases.csv", table, header="y,prediction", delimiter=",", comments=""
    )
    fedconformal(*shlex.split(text(page, "report-command"))[1:], "--yes", cwd=tmp_path)
    report = fc.Report.read(tmp_path / "report.json")
    assert (report.site, report.plan) == ("north", plan.digest)
    open_at(page, page.current_url)
    assert asked(page)["names"] == ["north", "St. Mary's"]
    assert asked(page)["score"] == "absolute"


@nightly
def test_the_command_that_is_shown_makes_the_same_plan(page, address):
    state = "private=yes&epsilon=2&bins=20&points=200&criterion=conditional"
    open_at(page, f"{address}#{state}&{NO_SEARCH}")
    made = fedconformal(*text(page, "command").split()[1:-2], "--json")
    privacy = fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 20))
    expected = fc.plan(10, 200, criterion="conditional", privacy=privacy)
    assert fc.Plan.from_json(made) == expected


@nightly
def test_a_link_holds_the_whole_state_and_the_skip_link_keeps_it(page, address):
    state = "sites=20&points=50&level=80&criterion=stable&missing=2&faulty=1&bear=2"
    state += "&private=yes&epsilon=3&bins=30&low=1&high=9"
    open_at(page, f"{address}#{state}&{NO_SEARCH}")
    link, first = page.current_url, asked(page)
    open_at(page, link)
    assert asked(page) == first
    assert (first["missing"], first["max_missing"]) == (2, 2)
    assert first.keys().isdisjoint({"numbers", "max_faulty"})
    assert first["privacy"] == {"epsilon": 3, "bins": 30, "low": 1, "high": 9}
    assert all(part in link for part in state.split("&"))
    skip = page.find_element(By.CSS_SELECTOR, 'a[href="#result"]')
    page.execute_script("arguments[0].focus(); arguments[0].click();", skip)
    until(page, lambda: page.execute_script("return location.hash") != "")
    assert page.find_element(By.ID, "private").is_selected()


@nightly
def test_a_promise_brings_its_usual_criterion_and_what_goes_with_it(page, address):
    open_at(page, f"{address}#faulty=1&numbers=3&{NO_SEARCH}")
    assert (
        asked(page)["criterion"],
        asked(page)["max_faulty"],
        asked(page)["numbers"],
    ) == ("stable", 1, 3)
    for promise, offered in (
        ("mixture", False),
        ("each-site", True),
        ("new-site", False),
    ):
        choose(page, promise)
        until(page, lambda want=promise: asked(page)["promise"] == want)
        for name in ("compared", "comparison", "needed"):
            assert (
                any(it.is_displayed() for it in page.find_elements(By.ID, name))
                == offered
            )
    choose(page, "each-site")
    until(page, lambda: asked(page)["promise"] == "each-site")
    wait_for_plan(page)
    assert asked(page)["criterion"] == "marginal"
    assert asked(page).keys().isdisjoint({"max_faulty", "numbers"})
    assert text(page, "headline").endswith(
        "90 % of the new cases of every site that answered."
    )
    assert "--promise each-site" in text(page, "command")
    for hidden in ("#faulty", "#numbers-field", "input[value=stable]"):
        assert not page.find_element(By.CSS_SELECTOR, hidden).is_displayed()
    choose(page, "population")
    until(page, lambda: asked(page)["promise"] == "population")
    assert (asked(page)["criterion"], asked(page)["max_faulty"]) == ("stable", 1)
    assert [line["message"] for line in page.get_log("browser")] == []


@nightly
def test_a_link_with_a_mistake_shows_what_is_wrong_and_nothing_else(page, address):
    page.get("about:blank")
    page.get(f"{address}#sites=0")
    until(page, lambda: page.find_element(By.ID, "problem").is_displayed())
    assert text(page, "problem") == "Please look at the marked field."
    sections = page.find_elements(By.CSS_SELECTOR, "main > section")
    assert not any(part.is_displayed() for part in sections)
    retype(page, "sites", "12")
    wait_for_plan(page)
    assert all(part.is_displayed() for part in sections)
    for bad in ("-3", "1.5", "99999", "0"):
        retype(page, "sites", bad)
        until(page, lambda: page.find_element(By.ID, "problem").is_displayed())
        assert text(page, "problem").endswith(
            "The plan below is from before the change."
        )


STATES = [
    "",
    "promise=mixture",
    f"private=yes&{NO_SEARCH}",
    "spread=list&criterion=conditional",
    "sites=3&points=2",
]


@nightly
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_the_width_and_has_no_serious_accessibility_problem(
    page, address, axe, width
):
    resize(page, width, 900)
    for state in STATES:
        open_at(page, f"{address}#{state}")
        assert (
            page.execute_script("return document.documentElement.scrollWidth") <= width
        )
        assert serious_problems(page, axe) == []
