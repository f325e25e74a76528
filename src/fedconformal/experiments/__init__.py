"""Every experiment of the paper: its data, models, protocol and figures, open to your own.

``fedconformal reproduce`` runs the studies; ``run`` runs the protocol on any data set, model and method.
"""

from fedconformal._extras import need

need("matplotlib", extra="experiments")

from fedconformal.experiments._data import (  # noqa: E402
    DATA_ADDRESS,
    DATA_FOLDER,
    DATA_SETS,
    DataSet,
    MissingDataError,
    available,
    from_table,
    load,
    poisson,
)
from fedconformal.experiments._methods import METHODS, PRIVATE_METHODS, Method  # noqa: E402
from fedconformal.experiments._models import MODELS, Forest, Model, Network, Ridge  # noqa: E402
from fedconformal.experiments._page import save_cases, save_figure, save_page, save_summary  # noqa: E402
from fedconformal.experiments._protocol import Progress, Scenario, paper_scenarios, run  # noqa: E402
from fedconformal.experiments._runs import is_fresh, record_run  # noqa: E402
from fedconformal.experiments._store import Store  # noqa: E402
from fedconformal.experiments._studies import CASES, STUDIES, Settings, Study, study_of  # noqa: E402
from fedconformal.experiments._summary import summarise  # noqa: E402

__all__ = [
    "CASES",
    "DATA_ADDRESS",
    "DATA_FOLDER",
    "DATA_SETS",
    "METHODS",
    "MODELS",
    "PRIVATE_METHODS",
    "STUDIES",
    "DataSet",
    "Forest",
    "Method",
    "MissingDataError",
    "Model",
    "Network",
    "Progress",
    "Ridge",
    "Scenario",
    "Settings",
    "Store",
    "Study",
    "available",
    "from_table",
    "is_fresh",
    "load",
    "paper_scenarios",
    "poisson",
    "record_run",
    "run",
    "save_cases",
    "save_figure",
    "save_page",
    "save_summary",
    "study_of",
    "summarise",
]
