"""The models of the paper: ridge regression, quantile forests, and a quantile network."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fedconformal import scores
from fedconformal._extras import need
from fedconformal._typing import Floats
from fedconformal.scores import Score

HELD_OUT = 0.05
"""Share of the training part on which quantile levels and epochs are tuned, as in the CQR paper."""


class Model(Protocol):
    """What the protocol needs of a model: a name, a score, and predictions after training.

    A dataclass, so that its fields, with its name, say which cached fits are its own.
    """

    name: ClassVar[str]
    score: ClassVar[Score]

    def fit_predict(self, X: Floats, y: Floats, new: Floats, *, seed: int) -> Floats:
        """Train, and predict for new rows.

        Parameters
        ----------
        X, y : array
            The training part.
        new : array
            Features of the rows to predict for.
        seed : int
            Of everything random; the same seed gives the same predictions.

        Returns
        -------
        array
            Predictions in the shape that the score takes.
        """
        ...


def settings(model: Model) -> dict[str, Any]:
    """Everything that a fit of a model depends on besides the data.

    Parameters
    ----------
    model : Model
        A dataclass.

    Returns
    -------
    dict
        Its fields.
    """
    return dict(asdict(model))  # type: ignore[call-overload]


@dataclass(frozen=True)
class Ridge:
    """Ridge regression whose penalty is tuned by cross-validation, with the absolute residual.

    Parameters
    ----------
    alphas : tuple of float
        Penalties to choose from.

    Examples
    --------
    >>> from fedconformal.experiments import poisson
    >>> from fedconformal.experiments import Ridge
    >>> drawn = poisson(100, 10, 10)
    >>> Ridge().fit_predict(drawn.X[:100], drawn.y[:100], drawn.X[100:], seed=0).shape
    (20,)
    """

    name: ClassVar[str] = "ridge"
    score: ClassVar[Score] = scores.Absolute()
    alphas: tuple[float, ...] = (0.1, 1.0, 10.0)

    def fit_predict(self, X: Floats, y: Floats, new: Floats, *, seed: int) -> Floats:
        """Predicted means."""
        linear = need("sklearn.linear_model", extra="experiments")
        predicted: Floats = linear.RidgeCV(alphas=self.alphas).fit(X, y).predict(new)
        return predicted


@dataclass(frozen=True)
class Forest:
    """Quantile forest with CQR; its two quantile levels are tuned on a held-out part of the training data.

    Hyperparameters are those of the CQR paper: trees that look at all features, fully grown (leaves of at
    least 40 points in its synthetic example). Two economies are ours: ``max_samples`` and
    ``n_tuning_trees``.

    Parameters
    ----------
    n_trees : int
        Trees of the forest that predicts.
    n_tuning_trees : int
        Trees of the forest with which the quantile levels are tuned.
    min_samples_leaf : int
        Fewest points of a leaf.
    max_samples : int
        Most rows that a tree draws; 0 for as many as there are.
    coverage_factor : float
        How much of the coverage aimed at the tuned quantiles must reach before CQR widens them.
    held_out : float
        Share of the training part on which the quantile levels are tuned.
    n_pairs : int
        How many pairs of quantile levels are tried, from (.05, .95) inwards.
    innermost : float
        The lower level of the last pair.

    Examples
    --------
    >>> from fedconformal.experiments import Forest, poisson
    >>> drawn = poisson(100, 10, 10)
    >>> small = Forest(n_trees=10, n_tuning_trees=10)
    >>> predicted = small.fit_predict(drawn.X[:100], drawn.y[:100], drawn.X[100:], seed=0)
    >>> predicted.shape, bool((predicted[:, 0] <= predicted[:, 1]).all())
    ((20, 2), True)
    """

    name: ClassVar[str] = "forest"
    score: ClassVar[Score] = scores.CQR()
    n_trees: int = 1000
    n_tuning_trees: int = 100
    min_samples_leaf: int = 1
    max_samples: int = 5000
    coverage_factor: float = 0.85
    held_out: float = HELD_OUT
    n_pairs: int = 10
    innermost: float = 0.35

    def fit_predict(self, X: Floats, y: Floats, new: Floats, *, seed: int) -> Floats:
        """Predicted quantiles at the tuned levels."""
        low, high = self.tune(X, y, seed=seed)
        predicted: Floats = self._fit(X, y, self.n_trees, seed).predict(new, quantiles=[low, high])
        return predicted

    def tune(self, X: Floats, y: Floats, *, seed: int) -> tuple[float, float]:
        """Choose quantile levels as the CQR paper does.

        Of the pairs from (.05, .95) inwards, ten down to (.35, .65) unless said otherwise, the last before
        intervals stop getting shorter, or cover less than 0.85 of the 90 % aimed at: what CQR then adds is
        small, and intervals keep their adaptive shape.

        Parameters
        ----------
        X, y : array
            The training part, of which a share is held out.
        seed : int
            Of the split and the forest.

        Returns
        -------
        tuple of float
            The lower and the upper level.
        """
        train, held = _hold_out(len(y), seed, self.held_out)
        lower = np.linspace(0.05, self.innermost, self.n_pairs)
        pairs = list(zip(lower, 1 - lower, strict=True))
        forest = self._fit(X[train], y[train], self.n_tuning_trees, seed)
        predicted = forest.predict(X[held], quantiles=[float(q) for pair in pairs for q in pair])
        best, shortest = pairs[0], np.inf
        for i, pair in enumerate(pairs):
            low, high = predicted[:, 2 * i], predicted[:, 2 * i + 1]
            length = float(np.mean(high - low))
            covered = float(np.mean((low <= y[held]) & (y[held] <= high)))
            if covered < self.coverage_factor * 0.9 or length >= shortest:
                break
            best, shortest = pair, length
        return float(best[0]), float(best[1])

    def _fit(self, X: Floats, y: Floats, n_trees: int, seed: int) -> Any:
        forests = need("quantile_forest", extra="experiments")
        forest = forests.RandomForestQuantileRegressor(
            n_trees,
            min_samples_leaf=self.min_samples_leaf,
            # Fully grown leaves hold one value anyway.
            max_samples_leaf=1 if self.min_samples_leaf == 1 else None,
            max_features=1.0,
            max_samples=self.max_samples if 0 < self.max_samples < len(y) else None,
            random_state=seed,
            n_jobs=1,
        )
        return forest.fit(X, y)


@dataclass(frozen=True)
class Network:
    """Quantile network with CQR, architecture and training of the CQR paper (PyTorch, extra ``nn``).

    Two hidden layers with dropout, pinball loss, Adam; the number of steps is the one after which a held-out
    part was covered to 80 % with the shortest intervals, and a second network that starts from the same
    weights is trained for so many steps on the whole training part. Two things are ours. ``max_steps``, an
    economy: the CQR paper's 1,000 epochs exceed it on large data sets. ``max_loss``, a guard: a held-out part
    of twenty points may be covered to 80 % in the first epochs alone, by a network that has learned nothing,
    and intervals are then four times as long as they should be.

    Parameters
    ----------
    quantiles : tuple of float
        Levels of the two outputs.
    n_hidden : int
        Units of each hidden layer.
    dropout, learning_rate, weight_decay : float
        Of the training.
    batch_size, n_epochs : int
        Of the training.
    max_steps : int
        Gradient steps after which no new epoch begins.
    max_loss : float
        An epoch counts only if its held-out loss is at most so many times the smallest of all epochs; if none
        that covers enough does, the one with the smallest loss is taken.

    Examples
    --------
    Only training needs PyTorch:

    >>> from fedconformal.experiments import Network
    >>> short = Network(n_epochs=30)
    >>> short.name, short.quantiles, short.n_epochs
    ('network', (0.1, 0.9), 30)
    """

    name: ClassVar[str] = "network"
    score: ClassVar[Score] = scores.CQR()
    quantiles: tuple[float, float] = (0.1, 0.9)
    n_hidden: int = 64
    dropout: float = 0.1
    learning_rate: float = 5e-4
    weight_decay: float = 1e-6
    batch_size: int = 64
    n_epochs: int = 1000
    max_steps: int = 20_000
    max_loss: float = 1.5

    def fit_predict(self, X: Floats, y: Floats, new: Floats, *, seed: int) -> Floats:
        """Predicted quantiles."""
        torch = need("torch", extra="nn")
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        train, held = _hold_out(len(y), seed)
        data = _Tensors(torch, X, y)
        network, optimizer = self._new(torch, X.shape[1])
        steps = self._best_steps(torch, network.state_dict(), data, train, held)
        done = 0
        while done < steps:
            done += self._epoch(torch, network, optimizer, data, np.arange(len(y)), most=steps - done)
        predicted: Floats = _evaluate(torch, network, data.tensor(new))
        return predicted

    def _best_steps(self, torch: Any, weights: Any, data: "_Tensors", train: Any, held: Any) -> int:
        """Gradient steps that are best on the held-out part, for a network that starts from these weights."""
        network, optimizer = self._new(torch, data.X.shape[1])
        network.load_state_dict(weights)
        y, steps, epochs = data.y[held].numpy(), 0, []
        for _ in range(self.n_epochs):
            if steps >= self.max_steps:
                break
            steps += self._epoch(torch, network, optimizer, data, train)
            epochs.append(Epoch.of(steps, y, _evaluate(torch, network, data.X[held]), self.quantiles))
        return self.best(epochs).steps

    def best(self, epochs: "Sequence[Epoch]") -> "Epoch":
        """The epoch to stop after.

        Parameters
        ----------
        epochs : sequence of Epoch
            What the held-out part said after each epoch.

        Returns
        -------
        Epoch
            The one with the shortest intervals of those that cover enough and have learned; the one with the
            smallest loss if there is none.
        """
        least = min(epochs, key=lambda epoch: epoch.loss)
        enough = [
            epoch
            for epoch in epochs
            if epoch.coverage >= self.quantiles[1] - self.quantiles[0]
            and epoch.loss <= self.max_loss * least.loss
        ]
        return min(enough, key=lambda epoch: epoch.length, default=least)

    def _new(self, torch: Any, n_features: int) -> tuple[Any, Any]:
        nn = torch.nn
        layers = [
            nn.Linear(n_features, self.n_hidden),
            nn.ReLU(),
            nn.Dropout(self.dropout),
            nn.Linear(self.n_hidden, self.n_hidden),
            nn.ReLU(),
            nn.Dropout(self.dropout),
            nn.Linear(self.n_hidden, 2),
        ]
        for layer in layers[::3]:
            nn.init.orthogonal_(layer.weight)
            nn.init.zeros_(layer.bias)
        network = nn.Sequential(*layers)
        adam = torch.optim.Adam(
            network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        return network, adam

    def _epoch(
        self,
        torch: Any,
        network: Any,
        optimizer: Any,
        data: "_Tensors",
        rows: Any,
        *,
        most: int | None = None,
    ) -> int:
        """One pass over shuffled rows, at most so many steps; returns how many were made."""
        network.train()
        quantiles = torch.tensor(self.quantiles)
        order = torch.as_tensor(rows)[torch.randperm(len(rows))]
        batches = [part.split(self.batch_size)[:most] for part in (data.X[order], data.y[order, None])]
        for X, y in zip(*batches, strict=True):
            optimizer.zero_grad()
            errors = y - network(X)
            torch.maximum((quantiles - 1) * errors, quantiles * errors).sum(dim=1).mean().backward()
            optimizer.step()
        return len(batches[0])


@dataclass(frozen=True)
class Epoch:
    """How a network did on the held-out part after an epoch.

    Parameters
    ----------
    steps : int
        Gradient steps made so far.
    coverage, length, loss : float
        Share of held-out points between the two quantiles, mean distance of the two, and pinball loss.
    """

    steps: int
    coverage: float
    length: float
    loss: float

    @classmethod
    def of(cls, steps: int, y: Floats, predicted: Floats, quantiles: tuple[float, float]) -> "Epoch":
        """What these predictions of the two quantiles are worth."""
        low, high = predicted.T
        errors, levels = y[:, None] - predicted, np.array(quantiles)
        return cls(
            steps,
            coverage=float(np.mean((low <= y) & (y <= high))),
            length=float(np.mean(np.abs(high - low))),
            loss=float(np.maximum((levels - 1) * errors, levels * errors).sum(axis=1).mean()),
        )


@dataclass
class _Tensors:
    torch: Any
    features: Floats
    target: Floats
    X: Any = field(init=False)
    y: Any = field(init=False)

    def __post_init__(self) -> None:
        self.X, self.y = self.tensor(self.features), self.tensor(self.target)

    def tensor(self, values: Floats) -> Any:
        return self.torch.tensor(values, dtype=self.torch.float32)


def _evaluate(torch: Any, network: Any, X: Any) -> Floats:
    network.eval()
    with torch.no_grad():
        values: Floats = network(X).numpy().astype(np.float64)
    return values


def _hold_out(n: int, seed: int, share: float = HELD_OUT) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to train on, and rows to tune on."""
    order = np.random.default_rng([seed, 1]).permutation(n)
    held = max(1, round(share * n))
    return order[held:], order[:held]


MODELS: dict[str, type[Model]] = {model.name: model for model in (Ridge, Forest, Network)}
"""The models by name."""
