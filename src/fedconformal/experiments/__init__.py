"""Every experiment of the paper: its data, models, protocol and figures, open to your own.

``fedconformal reproduce`` runs the studies; ``run`` runs the protocol on any data set, model and method.
"""

from fedconformal.experiments._data import DataSet, MissingDataError, from_table, load, poisson
from fedconformal.experiments._methods import METHODS, PRIVATE_METHODS, Method
from fedconformal.experiments._models import MODELS, Forest, Model, Network, Ridge
from fedconformal.experiments._page import save_figure, save_page, save_summary
from fedconformal.experiments._protocol import Scenario, paper_scenarios, run
from fedconformal.experiments._results import summarise
from fedconformal.experiments._store import Store
from fedconformal.experiments._studies import STUDIES, Settings, Study

__all__ = [
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
    "Ridge",
    "Scenario",
    "Settings",
    "Store",
    "Study",
    "from_table",
    "load",
    "paper_scenarios",
    "poisson",
    "run",
    "save_figure",
    "save_page",
    "save_summary",
    "summarise",
]
