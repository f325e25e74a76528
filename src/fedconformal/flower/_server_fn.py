"""Apps with a ``server_fn``: train as they do, and get hold of the model."""

from collections.abc import Callable

from flwr.app import ArrayRecord, Context
from flwr.common import parameters_to_ndarrays
from flwr.server import Server, ServerAppComponents, SimpleClientManager
from flwr.server.strategy import FedAvg
from flwr.serverapp import Grid, ServerApp


def train(grid: Grid, context: Context, server_fn: Callable[[Context], ServerAppComponents]) -> ArrayRecord:
    """Run the training of an app with a ``server_fn`` inside a main function, and return the model.

    Parameters
    ----------
    grid, context : Grid and Context
        As the ServerApp's main function gets them.
    server_fn : callable
        What ``ServerApp(server_fn=...)`` was given.

    Returns
    -------
    ArrayRecord
        The parameters after the last round, for `calibrate`.

    Examples
    --------
    In the main function of a ServerApp, which gets ``grid`` and ``context``; no round here, so that the model
    is the one that the strategy starts from:

    >>> import numpy as np
    >>> from flwr.common import ndarrays_to_parameters
    >>> from flwr.server import ServerAppComponents, ServerConfig
    >>> from flwr.server.strategy import FedAvg
    >>> def server_fn(context):
    ...     strategy = FedAvg(initial_parameters=ndarrays_to_parameters([np.zeros(3)]))
    ...     return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=0))
    >>> train(grid, context, server_fn).to_numpy_ndarrays()
    [array([0., 0., 0.])]
    """
    parts = server_fn(context)
    server = parts.server or Server(
        client_manager=parts.client_manager or SimpleClientManager(), strategy=parts.strategy or FedAvg()
    )
    components = ServerAppComponents(server=server, config=parts.config)
    ServerApp(server_fn=lambda _: components)(grid, context)
    return ArrayRecord(parameters_to_ndarrays(server.parameters))
