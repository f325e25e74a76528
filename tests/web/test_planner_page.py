"""The planner in a real browser: drag, type, paste, download, look."""

import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from browsing import (
    planner,
    resize,
    serious_problems,
    wait_for_plan,
)
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

import fedconformal as fc
from fedconformal.planning import PROMISES

pytestmark = pytest.mark.slow

NO_WISH = "wish-value=0"
"""In a link: a wish that is refused at once, for with private reports a search takes many seconds."""


@pytest.fixture(scope="module")
def address():
    with planner() as url:
        yield url


@pytest.fixture
def page(driver, address):
    resize(driver, 1280, 900)
    open_at(driver, address)
    return driver


def open_at(driver, url):
    driver.get("about:blank")  # a change of the part after # alone would not load the page again
    driver.get(url)
    wait_for_plan(driver)


def text(page, name):
    return page.find_element(By.ID, name).text.replace("\N{NO-BREAK SPACE}", " ")


def retype(page, name, value):
    field = page.find_element(By.ID, name)
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(value)


def asked(page):
    return json.loads(page.find_element(By.ID, "plan").get_attribute("data-asked"))


def until(page, condition, *, seconds=120):
    WebDriverWait(page, seconds, poll_frequency=0.05).until(lambda _: condition())


def test_the_first_plan_says_what_is_promised(page):
    assert text(page, "headline") == (
        "On average, the truth lies inside the prediction set for at least 90 % of new cases."
    )
    assert "Each site sends one number, once" in text(page, "cost")
    assert page.find_elements(By.CSS_SELECTOR, "#picture svg path.law-line")
    assert [line["message"] for line in page.get_log("browser")] == []


def test_nothing_is_loaded_from_elsewhere_and_the_page_is_light(page, address):
    entries = page.execute_script(
        "return [...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')]"
        ".map(entry => [entry.name, entry.transferSize])"
    )
    assert all(name.startswith(address) for name, _ in entries)
    assert sum(size for _, size in entries) < 1_000_000


def test_the_page_says_when_the_first_plan_was_there(page):
    entries = page.execute_script("return performance.getEntriesByName('first-plan').length")
    assert entries == 1


def test_dragging_a_slider_changes_the_plan(page):
    before = asked(page)["points"]
    ActionChains(page).drag_and_drop_by_offset(page.find_element(By.ID, "points-slider"), 60, 0).perform()
    until(page, lambda: asked(page)["points"] > before)
    wait_for_plan(page)
    size = int(page.find_element(By.ID, "points").get_attribute("value"))
    assert asked(page)["points"] == size
    assert f"--points {size} " in text(page, "command")


def test_the_keyboard_moves_a_slider(page):
    page.find_element(By.ID, "level-slider").send_keys(Keys.ARROW_RIGHT)
    until(page, lambda: asked(page)["confidence_level"] == 0.905)
    until(page, lambda: "90.5 %" in text(page, "headline"))


@pytest.mark.parametrize("bad", ["0", "-3", "1.5", "", "99999"])
def test_a_bad_number_is_named_beside_its_field(page, bad):
    retype(page, "sites", bad or Keys.DELETE)
    until(page, lambda: page.find_element(By.ID, "problem").is_displayed())
    assert "Please give a whole number from 1 to 10,000." in text(page, "sites-error")
    assert page.find_element(By.ID, "sites").get_attribute("aria-invalid") == "true"
    assert not page.find_element(By.ID, "download").is_enabled()
    retype(page, "sites", "12")
    until(page, lambda: asked(page)["sites"] == 12)
    assert not page.find_element(By.ID, "problem").is_displayed()


def paste(page, content):
    page.execute_script(
        "const list = document.getElementById('list'); list.value = arguments[0];"
        "list.dispatchEvent(new Event('input', {bubbles: true}))",
        content,
    )


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
WRONG_LISTS = [  # nothing that may be a separator of thousands is read as something else
    ("120, forty", "“forty” is not a number of cases"),
    ("north=120\n40", "Please name all sites, or none"),
    ("1,200\n3,400", "Please write “1,200” without a separator of thousands"),
    ("north\t1,200\nsouth\t3,400", "Please write “1,200” without a separator of thousands"),
    ("north\t1 200\nsouth\t40", "Please write “1 200” without a separator of thousands"),
    ("Name;Anzahl\nWien;1.200", "Please write “1.200” without a separator of thousands"),
    ("1,200", "“1,200” may be one number or several"),
    ("1,200, 3,400", "“1,200” may be one number or several"),
    ("north,1,200\nsouth,3,400", "“north,1,200” has too many columns"),
    ("north 1 200\nsouth 40", "Please write “north 1 200” as name=number"),
    ("north=120\nsouth=40\nnorth=60", "The name “north” is given more than once"),
    ("north=1200000", "Here a site may have up to 1,000,000 cases, not 1200000"),
    ("", "Please give at least one number"),
]


def test_sizes_and_names_can_be_pasted_in_many_forms(page):
    page.find_element(By.CSS_SELECTOR, "input[value=list]").click()
    for content, sizes, names in LISTS:
        paste(page, content)
        until(page, lambda want=(sizes, names): (asked(page)["points"], asked(page).get("names")) == want)
        named = "" if names is None else " with names"
        assert text(page, "list-count") == f"{len(sizes)} sites{named}"
    for content, sentence in WRONG_LISTS:
        paste(page, content)
        until(page, lambda want=sentence: want in text(page, "list-error"))


def test_a_plan_with_names_and_a_score_is_answered_from_predictions(page, tmp_path):
    page.find_element(By.CSS_SELECTOR, "input[value=list]").click()
    paste(page, "north=120\nSt. Mary's=60")
    Select(page.find_element(By.ID, "score")).select_by_value("absolute")
    until(page, lambda: asked(page).get("score") == "absolute" and "names" in asked(page))
    wait_for_plan(page)
    expected = fc.plan(n_points={"north": 120, "St. Mary's": 60}, score="absolute")
    page.find_element(By.ID, "download").click()
    path = page.downloads / "plan.json"
    until(page, path.exists)
    path.rename(tmp_path / "plan.json")
    assert fc.Plan.read(tmp_path / "plan.json") == expected
    table = np.column_stack([np.arange(120.0), np.zeros(120)])
    np.savetxt(tmp_path / "cases.csv", table, header="y,prediction", delimiter=",", comments="")
    command = [*shlex.split(text(page, "report-command"))[1:], "--yes"]
    subprocess.run(
        [sys.executable, "-m", "fedconformal", *command], cwd=tmp_path, check=True, capture_output=True
    )
    report = fc.Report.read(tmp_path / "report.json")
    assert (report.site, report.plan) == ("north", expected.digest)
    link = page.current_url
    open_at(page, link)
    assert asked(page)["names"] == ["north", "St. Mary's"]
    assert asked(page)["score"] == "absolute"


def test_a_plan_is_downloaded_and_answered_on_the_command_line(page, address, tmp_path):
    open_at(page, address + "#sites=3&points=60&criterion=stable&level=85")
    page.find_element(By.ID, "download").click()
    path = page.downloads / "plan.json"
    until(page, path.exists)
    expected = fc.plan(n_sites=3, n_points=60, criterion="stable", confidence_level=0.85)
    assert fc.Plan.read(path) == expected
    np.savetxt(tmp_path / "scores.csv", np.arange(60.0), header="score", comments="")
    arguments = ["report", path, tmp_path / "scores.csv", "--site", "A", "--yes", "-o", tmp_path / "A.json"]
    subprocess.run(
        [sys.executable, "-m", "fedconformal", *map(str, arguments)], check=True, capture_output=True
    )
    assert fc.Report.read(tmp_path / "A.json").plan == expected.digest
    path.unlink()


def test_the_command_that_is_shown_makes_the_same_plan(page, address, tmp_path):
    state = "private=yes&epsilon=2&bins=20&points=200&faulty=1&criterion=conditional"
    open_at(page, f"{address}#{state}&{NO_WISH}")
    command = text(page, "command").split()[1:-2]
    done = subprocess.run(
        [sys.executable, "-m", "fedconformal", *command, "--json"], check=True, capture_output=True, text=True
    )
    privacy = fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 20))
    expected = fc.plan(10, 200, criterion="conditional", max_faulty=1, privacy=privacy)
    assert fc.Plan.from_json(done.stdout) == expected


def test_several_numbers_and_silence_are_asked_for_and_stand_in_the_command(page, address):
    assert "With 3 numbers per site" in text(page, "rows")
    retype(page, "numbers", "3")
    retype(page, "bear", "2")
    until(page, lambda: asked(page).get("numbers") == 3 and asked(page).get("max_missing") == 2)
    wait_for_plan(page)
    plan = fc.plan(10, 100, numbers=3, max_missing=2)
    first, second, third = plan.local_ranks[0]
    assert f"sends numbers {first}, {second} and {third} from the smallest" in text(page, "steps")
    assert "With 1 number per site" in text(page, "rows")
    assert "--numbers 3 --max-missing 2 -o plan.json" in text(page, "command")


def test_private_reports_and_promises_that_refuse_it_take_one_number(page, address):
    open_at(page, f"{address}#numbers=3")
    assert asked(page)["numbers"] == 3
    page.find_element(By.CSS_SELECTOR, "input[name=promise][value=each-site]").click()
    until(page, lambda: "numbers" not in asked(page))
    assert not page.find_element(By.ID, "numbers-fields").is_displayed()
    open_at(page, f"{address}#numbers=3&private=yes&sites=5&points=200&{NO_WISH}")
    assert "numbers" not in asked(page)
    assert not page.find_element(By.ID, "numbers-fields").is_displayed()


def test_a_link_holds_the_whole_state(page, address):
    state = "sites=20&points=50&level=80&criterion=stable&missing=2&faulty=1"
    state += "&private=yes&epsilon=3&bins=30&low=1&high=9"
    open_at(page, f"{address}#{state}&{NO_WISH}")
    link, first = page.current_url, asked(page)
    open_at(page, link)
    assert asked(page) == first
    assert first["missing"] == 2
    assert first["privacy"] == {"epsilon": 3, "bins": 30, "low": 1, "high": 9}
    assert all(part in link for part in state.split("&"))


def test_a_wish_is_answered_with_an_exact_edge(page, address):
    open_at(page, address + "#sites=10&points=79&criterion=stable&wish=low&wish-value=88")
    pattern = re.compile(
        r"From ([\d,]+) cases at each of 10 sites on it is always met.*; with ([\d,]+) it is not"
    )
    until(page, lambda: pattern.search(text(page, "wish-answer")))
    enough, short = (int(n) for n in pattern.search(text(page, "wish-answer")).groups())
    quantiles = [fc.plan(10, n, criterion="stable").law.ppf(0.05) for n in (short, enough)]
    assert short == enough - 1
    assert quantiles[0] < 0.88 <= quantiles[1]


def test_what_has_no_law_offers_no_comparison_and_no_wish(page):
    for promise, offered in (("mixture", False), ("each-site", True), ("new-site", False)):
        page.find_element(By.CSS_SELECTOR, f"input[value={promise}]").click()
        until(page, lambda want=promise: asked(page)["promise"] == want)
        for name in ("compared", "comparison", "wishing"):
            assert page.find_element(By.ID, name).is_displayed() == offered
    assert [line["message"] for line in page.get_log("browser")] == []


def test_what_a_bound_leaves_open_cannot_be_wished_for(page, address):
    open_at(page, f"{address}#promise=each-site&wish=mean&wish-value=85")
    assert not page.find_element(By.CSS_SELECTOR, "#wish option[value=mean]").is_enabled()
    until(page, lambda: "it is always met" in text(page, "wish-answer"))


def test_a_draft_shows_no_figure_that_the_best_plan_may_have_less_of(page, address):
    """Everything that is shown is recorded, from the first draft on."""
    page.get("about:blank")
    page.get(f"{address}#sites=10&points=200&numbers=5&{NO_WISH}")
    seen = set()

    def is_settled():
        state = "const plan = document.getElementById('plan'); return [plan.dataset.draft, plan.innerText]"
        draft, shown = page.execute_script(state)
        seen.update([shown] if draft == "true" else [])
        return draft == "false"

    until(page, is_settled)
    assert seen, "the best plan came before anybody could look"
    for shown in seen:
        assert "first draft" in shown
        assert "of 20" not in shown.replace("19 of 20 reach", "").lower()
        assert re.search(r"This plan\s+…\s+…\s+…\s+…", shown)


def test_a_link_with_a_mistake_shows_what_is_wrong_and_nothing_else(page, address):
    page.get("about:blank")
    page.get(f"{address}#sites=0")
    until(page, lambda: page.find_element(By.ID, "problem").is_displayed())
    assert text(page, "problem") == "Please look at the marked field."
    assert not any(part.is_displayed() for part in page.find_elements(By.CSS_SELECTOR, "main > section"))
    retype(page, "sites", "12")
    wait_for_plan(page)
    assert all(part.is_displayed() for part in page.find_elements(By.CSS_SELECTOR, "main > section"))
    retype(page, "sites", "0")
    until(page, lambda: page.find_element(By.ID, "problem").is_displayed())
    assert text(page, "problem").endswith("The plan below is from before the change.")


def test_what_cannot_be_promised_is_said(page, address):
    open_at(page, address + "#sites=3&points=2")
    assert text(page, "headline") == "No finite threshold can keep this promise."
    assert "It would take 3 cases at each of 3 sites, or 5 sites of 2 cases." in text(page, "notes")
    assert "100" not in text(page, "rows")
    assert page.find_element(By.ID, "useless").is_displayed()
    assert "quiet" in page.find_element(By.ID, "download").get_attribute("class")


def test_promises_stand_side_by_side_and_can_be_chosen_there(page, address):
    open_at(page, address + "#sites=4&points=30")
    until(page, lambda: len(page.find_elements(By.CSS_SELECTOR, "#cards .card")) == len(list(PROMISES)))
    shown = {card.get_attribute("data-promise"): card for card in page.find_elements(By.CLASS_NAME, "card")}
    assert set(shown) == set(PROMISES)
    assert [name for name, card in shown.items() if "usual choice" in card.text] == ["population"]
    assert "Not possible here" in shown["new-site"].text
    assert not shown["new-site"].find_elements(By.CSS_SELECTOR, "button:not([hidden])")
    shown["each-site"].find_element(By.TAG_NAME, "button").click()
    until(page, lambda: asked(page)["promise"] == "each-site")
    until(page, lambda: "chosen" in shown["each-site"].get_attribute("class"))
    assert "times as wide as need be" in shown["each-site"].text
    badges = {
        name: [badge.text for badge in card.find_elements(By.CLASS_NAME, "badge")]
        for name, card in shown.items()
    }
    assert "chosen" in badges["each-site"]
    assert "chosen" not in badges["population"]


def test_a_promise_brings_its_usual_criterion_and_what_goes_with_it(page, address):
    open_at(page, f"{address}#faulty=1&private=yes&epsilon=5&{NO_WISH}")
    assert asked(page)["criterion"] == "stable"
    page.find_element(By.CSS_SELECTOR, "input[value=each-site]").click()
    until(page, lambda: asked(page)["promise"] == "each-site")
    wait_for_plan(page)
    assert asked(page)["criterion"] == "marginal"
    assert "max_faulty" not in asked(page)
    assert asked(page)["privacy"]["epsilon"] == 5
    assert text(page, "headline").endswith("90 % of the new cases of every site that answered.")
    assert "--promise each-site" in text(page, "command")
    assert "--epsilon 5" in text(page, "command")
    assert not page.find_element(By.ID, "faulty").is_displayed()
    assert not page.find_element(By.CSS_SELECTOR, "input[value=stable]").is_displayed()
    page.find_element(By.CSS_SELECTOR, "input[value=population]").click()
    until(page, lambda: asked(page)["promise"] == "population")
    wait_for_plan(page)
    assert (asked(page)["criterion"], asked(page)["max_faulty"]) == ("stable", 1)


def test_a_criterion_that_was_chosen_stays_with_another_promise(page, address):
    open_at(page, address + "#criterion=conditional&certainty-conditional=95")
    page.find_element(By.CSS_SELECTOR, "input[value=each-site]").click()
    until(page, lambda: asked(page)["promise"] == "each-site")
    assert (asked(page)["criterion"], asked(page)["delta"]) == ("conditional", 0.05)
    link = page.current_url
    open_at(page, link)
    assert asked(page)["promise"] == "each-site"
    assert text(page, "headline").startswith("With 95 % certainty")


STATES = [
    "",
    "promise=mixture",
    f"private=yes&{NO_WISH}",
    "spread=list&criterion=conditional",
    "sites=3&points=2",
]


@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_the_width_and_has_no_serious_accessibility_problem(page, address, axe, tmp_path, width):
    resize(page, width, 900)
    for state in STATES:
        open_at(page, f"{address}#{state}")
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        assert page.save_screenshot(str(tmp_path / "planner.png"))
        assert serious_problems(page, axe) == []


def test_the_skip_link_keeps_what_was_chosen(page, address):
    open_at(page, f"{address}#sites=10&points=500&private=yes&epsilon=2&{NO_WISH}")
    assert page.find_element("id", "private").is_selected()
    link = page.find_element("css selector", 'a[href="#result"]')
    page.execute_script("arguments[0].focus(); arguments[0].click();", link)
    WebDriverWait(page, 20).until(lambda page: page.execute_script("return location.hash") != "")
    assert page.find_element("id", "private").is_selected()
