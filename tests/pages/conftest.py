"""A browser for the tests of pages, and what looks for problems of accessibility."""

import os

import pytest
from browsing import axe_source, browser, find_browser


@pytest.fixture(scope="session")
def browser_paths():
    """The browser and its driver; without them tests are skipped, or fail if
    FEDCONFORMAL_BROWSER is set.
    """
    paths = find_browser()
    if isinstance(paths, str):
        (pytest.fail if os.environ.get("FEDCONFORMAL_BROWSER") else pytest.skip)(paths)
    return paths


@pytest.fixture(scope="module")
def driver(browser_paths):
    with browser(browser_paths) as page:
        yield page


@pytest.fixture(scope="module")
def axe():
    source = axe_source()
    if source is None:
        pytest.skip("axe-core could not be had from npm")
    return source
