import subprocess
import sys

import pytest


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_core_imports_nothing_heavy():
    loaded = python("import sys, fedconformal; print(*{name.partition('.')[0] for name in sys.modules})")
    heavy = {
        "sklearn",
        "matplotlib",
        "flwr",
        "nvflare",
        "opendp",
        "pandas",
        "polars",
        "typer",
        "rich",
        "cryptography",
    }
    heavy |= {"starlette", "uvicorn", "anyio"}
    assert heavy.isdisjoint(loaded)


def test_scipy_stays_light():
    loaded = python("import sys, fedconformal; print(*sys.modules)")
    assert "scipy.stats" not in loaded
    assert "scipy.optimize" not in loaded


def test_what_does_not_exist_is_an_attribute_error():
    import fedconformal

    with pytest.raises(AttributeError, match="nonsense"):
        fedconformal.nonsense  # noqa: B018
