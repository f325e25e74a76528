"""A browser for the tests of pages, and what looks for problems of accessibility."""

import pytest
from browsing import axe_source, browser, find_browser


@pytest.fixture(scope="module")
def driver():
    paths = find_browser()
    if isinstance(paths, str):
        pytest.skip(paths)
    with browser(paths) as page:
        yield page


@pytest.fixture(scope="module")
def axe():
    source = axe_source()
    if source is None:
        pytest.skip("axe-core could not be had from npm")
    return source
