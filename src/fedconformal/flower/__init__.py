"""One calibration round on Flower: one line at the client, one at the server.

``add_conformal`` lets a ClientApp answer a plan with one report; the strategy
``Conformal`` calibrates after the rounds of another one, and ``calibrate`` does so in a
main function: both ask every connected site and return the Calibration that the same
reports in files would give; ``check`` asks the sites for its coverage of new cases.
``sealed`` keeps the text of exceptions at the site, for all handlers of a ClientApp.
Apps with a ``client_fn`` and a ``server_fn`` use ``conformal_mod`` and ``train``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedconformal._extras import need

need("flwr", extra="flower")

from fedconformal.flower._client import (  # noqa: E402
    add_conformal,
    calibration_record,
    conformal_mod,
    read_calibration,
    sealed,
)

if TYPE_CHECKING:
    from fedconformal.flower._server import calibrate, check, train
    from fedconformal.flower._strategy import Conformal
    from fedconformal.rounds import Failure

__all__ = [
    "Conformal",
    "add_conformal",
    "calibrate",
    "calibration_record",
    "check",
    "read_calibration",
    "sealed",
]

_LAZY = {
    "Conformal": "fedconformal.flower._strategy",
    "Failure": "fedconformal.rounds",
    "calibrate": "fedconformal.flower._server",
    "check": "fedconformal.flower._server",
    "train": "fedconformal.flower._server",
}


def __getattr__(name: str) -> Any:
    """Load the server's half when it is first asked for: no client pays for it."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(_LAZY[name]), name)
    return globals()[name]
