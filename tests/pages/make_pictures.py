"""python tests/pages/make_pictures.py DIRECTORY: the pictures of the README and the
documentation.
"""

import io
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from browsing import browser, find_browser, resize, wait_for_plan
from matplotlib import pyplot
from PIL import Image
from selenium.webdriver.support.ui import WebDriverWait

import fedconformal as fc
from fedconformal.pages import certificate, create_app
from fedconformal.pages._answer import answer_page
from fedconformal.pages._desk import calibrate
from fedconformal.pages._server import background

WIDTH, HEIGHT = 1200, 860
FACTS = {
    "name": "length of stay, gradient boosting",
    "version": "2.3",
    "purpose": "planning of beds",
    "population": "adults admitted through emergency",
    "period": "January to June 2026",
    "unit": "days",
    "coordinator": "Hospital network, department of statistics",
    "contact": "statistics@example.org",
    "check_again": "January 2027",
}
STATE = "#sites=12&points=150&level=90&criterion=stable&missing=1&faulty=1"


def save(png, path):
    """With few colours, which is all that pages and plots have."""
    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(96)
    image.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1024:.0f} KB")


def planner_picture(driver, path):
    with background() as address:
        resize(driver, WIDTH, HEIGHT)
        driver.get(address + STATE)
        wait_for_plan(driver)
        first = driver.execute_script(
            "return performance.getEntriesByName('first-plan')[0].startTime"
        )
        save(driver.get_screenshot_as_png(), path)
    print(f"first plan on screen after {first:.0f} ms")


def example():
    sizes = {"north": 120, "south": 40, "west": 377, "east": 88}
    plan = fc.plan(n_points=sizes, score="absolute", terms=FACTS)
    rng = np.random.default_rng(1)
    return plan, [
        fc.report(plan, rng.gamma(2.0, size=n), site=site)
        for site, n in sizes.items()
        if site != "east"
    ]


def desk_picture(driver, path):
    """Of a folder of this day, from the answers on."""
    plan, reports = example()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory, "length-of-stay")
        (folder / "reports").mkdir(parents=True)
        for document, name in [
            (plan, "plan"),
            *((report, f"reports/{report.site}") for report in reports),
        ]:
            (folder / f"{name}.json").write_text(document.to_json())
        calibrate(folder, b"{}")
        with background(create_app(folder=folder)) as address:
            resize(driver, WIDTH, HEIGHT)
            driver.get(address)
            WebDriverWait(driver, 3600).until(
                lambda page: page.find_elements("id", "answers")
            )
            driver.execute_script(
                "document.querySelectorAll('section')[2].scrollIntoView()"
            )
            save(driver.get_screenshot_as_png(), path)


def answer_picture(driver, path):
    """Of one hospital's page, from what leaves on."""
    plan, _ = example()
    truth, prediction = np.random.default_rng(2).gamma(2.0, size=(2, 120)).round(2)
    with tempfile.TemporaryDirectory() as directory:
        contents = {
            "answer.html": answer_page(),
            "plan.json": plan.to_json(),
            "cases.csv": "\n".join(
                ["truth,prediction", *map("{},{}".format, truth, prediction)]
            ),
        }
        for name, content in contents.items():
            Path(directory, name).write_text(content, encoding="utf-8")
        resize(driver, WIDTH, HEIGHT)
        driver.get(Path(directory, "answer.html").as_uri())
        driver.find_element("id", "plan-file").send_keys(f"{directory}/plan.json")
        WebDriverWait(driver, 3600).until(
            lambda page: page.find_element("id", "site").is_displayed()
        )
        driver.find_element("id", "site").send_keys("north")
        driver.find_element("id", "cases-file").send_keys(f"{directory}/cases.csv")
        WebDriverWait(driver, 3600).until(
            lambda page: page.find_element("id", "save").is_displayed()
        )
        driver.execute_script("document.getElementById('understood').scrollIntoView()")
        save(driver.get_screenshot_as_png(), path)


def certificate_picture(driver, path):
    plan, reports = example()
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory, "certificate.html")
        page.write_text(certificate(fc.calibrate(plan, reports)), encoding="utf-8")
        resize(driver, WIDTH, HEIGHT)
        driver.get(page.as_uri())
        save(driver.get_screenshot_as_png(), path)


def plots_picture(path):
    _, axes = pyplot.subplots(1, 2, figsize=(12, 4.6), constrained_layout=True)
    fc.plots.CoverageLawDisplay.from_plan(fc.plan(10, 79), ax=axes[0])
    sites = np.repeat(["north", "south", "west", "east"], [120, 40, 377, 88])
    covered = np.random.default_rng(1).random(sites.size) < np.where(
        sites == "east", 0.75, 0.9
    )
    fc.plots.SiteCoverageDisplay.from_covered(
        covered, sites, confidence_level=0.9, ax=axes[1]
    )
    content = io.BytesIO()
    pyplot.savefig(content, dpi=100)
    save(content.getvalue(), path)


def main(directory):
    paths = find_browser()
    if isinstance(paths, str):
        sys.exit(paths)
    directory.mkdir(parents=True, exist_ok=True)
    with browser(paths) as driver:
        planner_picture(driver, directory / "planner.png")
        answer_picture(driver, directory / "answer.png")
        desk_picture(driver, directory / "desk.png")
        certificate_picture(driver, directory / "certificate.png")
    plots_picture(directory / "plots.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
