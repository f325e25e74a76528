"""Imports of a client app: Flower starts a process for every message, so each is paid
in every round.
"""

import subprocess
import sys

import pytest

pytest.importorskip("flwr", reason="the extra [flower] is not installed")

PROGRAM = """
import sys
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

before = set(sys.modules)
from fedconformal.flower import add_conformal, conformal_mod, sealed

app = ClientApp(mods=[sealed, conformal_mod(lambda context: [])])
add_conformal(app, lambda arrays, context: [], check_scores_fn=lambda parameters: [])
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.slow
def test_a_client_loads_nothing_but_the_sites_half_until_it_is_asked():
    """No numpy, scipy, pydantic or part of Flower that Flower's own imports have not
    loaded.
    """
    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    ).stdout.split()
    package = "fedconformal"
    parts = ("_extras", "_version", "flower", "flower._client")
    assert printed == [package, *(f"{package}.{part}" for part in parts)]
