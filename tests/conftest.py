"""Tests lie in folders like those of the package; what they share is imported by its
plain name.
"""

import os
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *sorted(str(folder) for folder in HERE.glob("[a-z]*/"))]

for size in (
    "COLUMNS",
    "LINES",
):  # the library that reads lines sets them behind Python's back
    os.environ.pop(size, None)

settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("test", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("nightly", deadline=None, print_blob=True, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))

LIBRARIES = [
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "cryptography.x509",
    "flint",
    "flwr.clientapp",
    "flwr.server",
    "flwr.serverapp",
    "hypothesis.stateful",
    "jinja2",
    "joblib",
    "mapie.classification",
    "mapie.regression",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "mpmath",
    "nvflare.app_common.default_component_policy",
    "nvflare.fuel.flare_api.flare_api",
    "nvflare.job_config.api",
    "nvflare.recipe.spec",
    "opendp.prelude",
    "pandas",
    "polars",
    "pooch",
    "pydantic.json_schema",
    "quantile_forest",
    "rich.progress",
    "scipy.optimize",
    "scipy.stats",
    "selenium.webdriver.support.ui",
    "sklearn.gaussian_process",
    "sklearn.utils.estimator_checks",
    "starlette.applications",
    "typer",
    "uvicorn",
]
"""What tests and the package import from elsewhere, if it is installed, and takes long
to load.
"""


def pytest_configure(config):
    """Where coverage will be measured, load other libraries before, in half the
    time.
    """
    if hasattr(config, "workerinput") and getattr(config.option, "cov_source", None):
        for name in LIBRARIES:
            with suppress(ImportError), warnings.catch_warnings(action="ignore"):
                import_module(name)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Modules with slow tests come first: when the last tests are shared out, they are
    short.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Coverage, which doubles the time, is measured in fast tests alone."""
    tracer = (
        sys.modules["coverage"].Coverage.current()
        if "coverage" in sys.modules
        else None
    )
    if tracer is None or item.get_closest_marker("slow") is None:
        return (yield)
    tracer.stop()
    try:
        return (yield)
    finally:
        tracer.start()
