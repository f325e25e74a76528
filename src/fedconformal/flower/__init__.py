"""One calibration round on Flower: one line at the client, one at the server.

``add_conformal`` lets a ClientApp answer a plan with one report; ``calibrate`` asks every connected site and
returns the Calibration that the same reports in files would give; ``check`` asks the sites for its coverage
of new cases. ``sealed`` keeps the text of exceptions at the site, for all handlers of a ClientApp. Apps with
a ``client_fn`` and a ``server_fn`` use ``conformal_mod`` and ``train``.
"""

from fedconformal._extras import need

need("flwr", extra="flower")

from fedconformal.flower._apps import add_conformal, calibrate, check, conformal_mod, sealed, train  # noqa: E402
from fedconformal.rounds import Failure  # noqa: E402

__all__ = ["add_conformal", "calibrate", "check", "sealed"]
