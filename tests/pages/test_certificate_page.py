"""A certificate in a real browser and on paper: nothing is cut, struck through or left
alone.
"""

import base64
import io
import re

import numpy as np
import pytest
from browsing import resize, serious_problems
from pypdf import PdfReader

import fedconformal as fc
from fedconformal.pages import certificate

pytestmark = pytest.mark.nightly

SIZES = {"north": 120, "south": 90, "west": 377, "east": 88}
FACTS = {
    "name": "y" * 400,
    "purpose": "<b>planning</b> of beds",
    "unit": "days",
    "contact": "office",
}


def calibrated(plan, sizes=SIZES, **options):
    rng = np.random.default_rng(0)
    reports = [
        fc.report(plan, rng.gamma(2.0, size=n), site=site, **options)
        for site, n in sizes.items()
    ]
    return fc.calibrate(plan, reports)


def plain():
    return calibrated(fc.plan(n_points=SIZES, score="absolute", terms=FACTS))


def levels_and_a_missing_site():
    plan = fc.plan(n_points=SIZES, confidence_level=[0.8, 0.9], score="cqr")
    return calibrated(plan, {"north": 120, "west": 377})


def groups():
    sizes = {
        "adult": {"north": 30, "west": 30, "south": 9},
        "child": {"north": 30, "west": 30},
    }
    plan = fc.plan(groups=sizes, confidence_level=[0.8, 0.9])
    return calibrated(
        plan, {"north": 60, "west": 60}, groups=np.repeat(["adult", "child"], 30)
    )


def mixture():
    return calibrated(fc.plan(n_points=SIZES, promise="mixture", score="absolute"))


def names_of_200_characters():
    sizes = {
        "x" * 200: 60,
        "مستشفى الشمال": 80,
        "<script>alert(1)</script>": 70,
        "D": 75,
    }
    plan = fc.plan(n_points=sizes)
    return calibrated(plan, dict(list(sizes.items())[1:]))


def private(tmp_path):
    privacy = fc.Privacy(1.0, fc.Bins.uniform(0, 15, 60))
    plan = fc.plan(
        n_points=dict.fromkeys("ABCDE", 600), privacy=privacy, score="absolute"
    )
    rng, reports = np.random.default_rng(0), []
    for site in "ABCDE":
        ledger = fc.Ledger.create(tmp_path / f"{site}.db")
        ledger.set_budget("2026", 4)
        scores = rng.gamma(2.0, size=600)
        reports.append(
            fc.report(plan, scores, site=site, ledger=ledger, dataset="2026")
        )
    return fc.calibrate(plan, reports)


@pytest.fixture(scope="module")
def calibrations(tmp_path_factory):
    made = (plain, levels_and_a_missing_site, groups, mixture, names_of_200_characters)
    return {
        **{make.__name__: make() for make in made},
        "private": private(tmp_path_factory.mktemp("ledgers")),
    }


@pytest.fixture(scope="module")
def addresses(calibrations, tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    for name, found in calibrations.items():
        (folder / f"{name}.html").write_text(certificate(found), encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in calibrations}


WIDER = """
const isWide = each => each.scrollWidth > each.clientWidth + 1
return [...document.querySelectorAll('.scroll')].filter(isWide)
  .map(each => each.getAttribute('aria-label'))
"""

STRUCK = """
const shown = [...document.querySelectorAll('svg.law')].filter(
  svg => svg.checkVisibility())
const boxes = shown.flatMap(svg => {
  const kinds = 'path.law-level, path.law-mean, path.law-low';
  const lines = [...svg.querySelectorAll(kinds)].map(each => each.getBBox());
  return [...svg.querySelectorAll('text')].flatMap(text => {
    const box = text.getBBox();
    const outside = box.x < -1 || box.x + box.width > svg.viewBox.baseVal.width + 1;
    const struck = lines.some(line => line.x > box.x && line.x < box.x + box.width
      && line.y < box.y + box.height - 4 && line.y + line.height > box.y + 4);
    return outside || struck ? [text.textContent] : [];
  });
});
return boxes;
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_or_struck_through(driver, addresses, width):
    resize(driver, width, 900)
    for name, address in addresses.items():
        driver.get(address)
        assert (
            driver.execute_script("return document.documentElement.scrollWidth")
            <= width
        ), name
        assert driver.execute_script(WIDER) == [], name
        assert driver.execute_script(STRUCK) == [], name
        assert [line["message"] for line in driver.get_log("browser")] == []


@pytest.mark.parametrize("width", [1280, 390])
def test_there_is_no_serious_accessibility_problem(driver, addresses, axe, width):
    resize(driver, width, 900)
    for name in ("levels_and_a_missing_site", "groups", "private"):
        driver.get(addresses[name])
        assert serious_problems(driver, axe) == []


HEADINGS = (
    "Whom it does not cover|What was found since|What it does not say|Sets of several"
    " labels|Wide intervals|Details|If one site differs|The promise holds if|Groups of"
    " later cases|Checking again|What the sites sent|How to verify it"
)


def printed_pages(driver):
    """The lines of each page."""
    printed = driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    pages = PdfReader(io.BytesIO(base64.b64decode(printed["data"]))).pages
    texts = [page.extract_text(extraction_mode="layout") for page in pages]
    return [
        [line.strip() for line in text.splitlines() if line.strip()] for text in texts
    ]


def test_printed_pages_have_their_number_the_digest_and_what_is_folded_away(
    driver, addresses, calibrations
):
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    for name, address in addresses.items():
        driver.get(address)
        pages = printed_pages(driver)
        for number, lines in enumerate(pages, start=1):
            foot = rf"{calibrations[name].digest}\s+{number} ?/ ?{len(pages)}"
            assert re.fullmatch(foot, lines[-1]), name
        assert "fedconformal verify calibration.json" in " ".join(
            line for lines in pages for line in lines
        )
        if name == "plain":
            assert len(pages) == 2
            assert any(line.startswith("For the coordinator") for line in pages[0])


def test_no_heading_is_left_alone_wherever_pages_end(driver, addresses):
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    driver.get(addresses["mixture"])
    move = (
        "for (const each of document.querySelectorAll('section')) each.style.marginTop"
        " = arguments[0]"
    )
    for gap in range(6, 66, 5):
        driver.execute_script(move, f"{gap}mm")
        pages = printed_pages(driver)
        assert [
            lines[-2] for lines in pages if re.fullmatch(HEADINGS, lines[-2])
        ] == [], gap
