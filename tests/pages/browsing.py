"""A planner that runs, and a browser to look at it with: both are ended whatever
happens.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--process-per-site",  # no new process for every page that is opened
)


@contextlib.contextmanager
def planner(*options):
    """The address of a planner on a free port."""
    command = [
        sys.executable,
        "-m",
        "fedconformal",
        "planner",
        "--port",
        "0",
        "--no-browser",
        *options,
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process.stdout.readline().removeprefix("planner: ").strip()
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def find_browser():
    """Chromium and its driver, installed if need be and possible; or the reason why
    there is none.
    """
    with (Path(tempfile.gettempdir()) / "fedconformal-browser.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes run side by side
        found = _found()
        if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
            for step in (
                ["update"],
                [
                    "install",
                    "-y",
                    "--no-install-recommends",
                    "chromium",
                    "chromium-driver",
                ],
            ):
                subprocess.run(
                    ["apt-get", "-qq", *step],
                    env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                    capture_output=True,
                    check=False,
                    timeout=600,
                )
            found = _found()
    return found or "Chromium and chromedriver are not installed, and could not be"


def _found():
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


@contextlib.contextmanager
def browser(paths, *, width=1280, height=900, logs=("browser",)):
    """A headless browser with a profile of its own; downloads go to
    ``driver.downloads``.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        options = webdriver.ChromeOptions()
        options.binary_location = paths[0]
        for flag in (
            *FLAGS,
            f"--user-data-dir={directory}/profile",
            f"--window-size={width},{height}",
        ):
            options.add_argument(flag)
        downloads = Path(directory, "downloads")
        downloads.mkdir()
        options.add_experimental_option(
            "prefs", {"download.default_directory": str(downloads)}
        )
        options.set_capability("goog:loggingPrefs", dict.fromkeys(logs, "ALL"))
        driver = webdriver.Chrome(options, service=Service(paths[1]))
        driver.downloads = downloads
        try:
            yield driver
        finally:
            driver.quit()


def resize(driver, width, height):
    """Make the page exactly so wide, as on a phone."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {
            "width": width,
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": width < 600,
        },
    )


def wait_for_plan(driver):
    """Until the best plan and what it is compared with are on the page."""
    from selenium.webdriver.support.ui import WebDriverWait

    state = "const { settled, asked } = document.getElementById('plan').dataset;"
    settled = f"{state} return settled === 'true' && asked !== undefined"
    WebDriverWait(driver, 3600, poll_frequency=0.05).until(
        lambda page: page.execute_script(settled)
    )


def axe_source():
    """The source of axe-core from npm, or the reason why there is none."""
    if shutil.which("npm") is None:
        return None
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [
                "npm",
                "install",
                "--silent",
                "--no-audit",
                "--no-fund",
                "--prefix",
                directory,
                "axe-core@4",
            ],
            capture_output=True,
            check=False,
            timeout=120,
        )
        source = Path(directory, "node_modules", "axe-core", "axe.min.js")
        return source.read_text() if done.returncode == 0 and source.exists() else None


def serious_problems(driver, source):
    """What axe-core finds on the page that is serious or worse, one line each."""
    driver.execute_script(source)
    found = driver.execute_async_script(
        "const done = arguments[arguments.length - 1];axe.run(document).then(done,"
        " error => done({violations: [], error: String(error)}));"
    )
    assert "error" not in found, found
    return [
        f"{problem['impact']}: {problem['id']}: {problem['nodes'][0]['html'][:200]}"
        for problem in found["violations"]
        if problem["impact"] in ("serious", "critical")
    ]
