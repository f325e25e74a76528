"""The models of the paper: ridge regression, a quantile forest and a quantile network.

A model is a frozen dataclass with a ``name``, a ``score`` and ``fit_predict(X, y, new,
seed=...)``.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from quantile_forest import RandomForestQuantileRegressor
from sklearn.linear_model import RidgeCV

from fedconformal import scores


@dataclass(frozen=True)
class Ridge:
    """Ridge regression with a penalty tuned by cross-validation; the score is the
    absolute residual.
    """

    name: ClassVar[str] = "ridge"
    score: ClassVar[scores.Score] = scores.Absolute()
    alphas: tuple[float, ...] = (0.1, 1.0, 10.0)

    def fit_predict(self, X, y, new, *, seed):
        """Return predicted means."""
        return RidgeCV(alphas=self.alphas).fit(X, y).predict(new)


@dataclass(frozen=True)
class Forest:
    """CQR with a quantile forest, hyperparameters of the CQR paper.

    Trees look at all features. The quantile levels are tuned on the share ``held_out``
    of the training part: of ``n_pairs`` pairs from (.05, .95) to (innermost, 1 -
    innermost), the last before intervals stop getting shorter, or cover less than
    ``coverage_factor`` of 90 %. ``max_samples`` (rows that a tree draws, 0 for
    all) and ``n_tuning_trees`` save time and are not in the CQR paper.
    """

    name: ClassVar[str] = "forest"
    score: ClassVar[scores.Score] = scores.CQR()
    n_trees: int = 1000
    n_tuning_trees: int = 100
    min_samples_leaf: int = 1
    max_samples: int = 5000
    coverage_factor: float = 0.85
    held_out: float = 0.05
    n_pairs: int = 10
    innermost: float = 0.35

    def fit_predict(self, X, y, new, *, seed):
        """Return predicted quantiles at the tuned levels."""
        return self._fit(X, y, self.n_trees, seed).predict(
            new, quantiles=list(self.tune(X, y, seed=seed))
        )

    def tune(self, X, y, *, seed) -> tuple[float, float]:
        """Choose the two quantile levels."""
        train, held = _hold_out(len(y), seed, self.held_out)
        lower = np.linspace(0.05, self.innermost, self.n_pairs)
        pairs = [(float(low), float(1 - low)) for low in lower]
        forest = self._fit(X[train], y[train], self.n_tuning_trees, seed)
        predicted = forest.predict(
            X[held], quantiles=[level for pair in pairs for level in pair]
        )
        best, shortest = pairs[0], np.inf
        for i, pair in enumerate(pairs):
            low, high = predicted[:, 2 * i], predicted[:, 2 * i + 1]
            length = np.mean(high - low)
            covered = np.mean((low <= y[held]) & (y[held] <= high))
            if covered < self.coverage_factor * 0.9 or length >= shortest:
                break
            best, shortest = pair, length
        return best

    def _fit(self, X, y, n_trees, seed):
        return RandomForestQuantileRegressor(
            n_trees,
            min_samples_leaf=self.min_samples_leaf,
            # Fully grown leaves hold one value anyway.
            max_samples_leaf=1 if self.min_samples_leaf == 1 else None,
            max_features=1.0,
            max_samples=self.max_samples if 0 < self.max_samples < len(y) else None,
            random_state=seed,
            n_jobs=1,
        ).fit(X, y)


@dataclass(frozen=True)
class Network:
    """CQR with a quantile network, architecture and training of the CQR paper; needs
    PyTorch.

    Two hidden layers with dropout, pinball loss, Adam. The number of gradient steps is
    the one after which a held-out part was covered to 80 % with the shortest intervals;
    a second network with the same initial weights is then trained for this many steps
    on the whole training part. ``max_steps`` saves time: no epoch begins after it.
    ``max_loss`` is a safeguard: an epoch counts only if its held-out loss is at most
    this many times the smallest, since twenty held-out points may be covered by an
    untrained network.
    """

    name: ClassVar[str] = "network"
    score: ClassVar[scores.Score] = scores.CQR()
    quantiles: tuple[float, float] = (0.1, 0.9)
    n_hidden: int = 64
    dropout: float = 0.1
    learning_rate: float = 5e-4
    weight_decay: float = 1e-6
    batch_size: int = 64
    n_epochs: int = 1000
    max_steps: int = 20_000
    max_loss: float = 1.5

    def fit_predict(self, X, y, new, *, seed):
        """Return predicted quantiles."""
        import torch

        torch.manual_seed(seed)
        torch.set_num_threads(1)
        train, held = _hold_out(len(y), seed)
        X, y, new = (
            torch.tensor(values, dtype=torch.float32) for values in (X, y, new)
        )
        network, optimizer = self._new(X.shape[1])
        steps = self._best_steps(network.state_dict(), X, y, train, held)
        done = 0
        while done < steps:
            done += self._epoch(
                network, optimizer, X, y, np.arange(len(y)), most=steps - done
            )
        return _evaluate(network, new)

    def _best_steps(self, weights, X, y, train, held) -> int:
        network, optimizer = self._new(X.shape[1])
        network.load_state_dict(weights)
        steps, epochs = 0, []
        for _ in range(self.n_epochs):
            if steps >= self.max_steps:
                break
            steps += self._epoch(network, optimizer, X, y, train)
            epochs.append(
                Epoch.of(
                    steps, y[held].numpy(), _evaluate(network, X[held]), self.quantiles
                )
            )
        return self.best(epochs).steps

    def best(self, epochs: "list[Epoch]") -> "Epoch":
        """Return the epoch to stop after: shortest intervals, or the smallest loss if
        none covers enough.
        """
        least = min(epochs, key=lambda epoch: epoch.loss)
        eligible = [
            epoch
            for epoch in epochs
            if epoch.coverage >= self.quantiles[1] - self.quantiles[0]
            and epoch.loss <= self.max_loss * least.loss
        ]
        return min(eligible, key=lambda epoch: epoch.length, default=least)

    def _new(self, n_features):
        import torch
        from torch import nn

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
            network.parameters(),
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            fused=True,
        )
        return network, adam

    def _epoch(self, network, optimizer, X, y, rows, *, most=None) -> int:
        """Pass over shuffled rows, at most ``most`` steps, and return the number of
        steps.
        """
        import torch

        network.train()
        quantiles = torch.tensor(self.quantiles)
        order = torch.as_tensor(rows)[torch.randperm(len(rows))]
        batches = [
            part.split(self.batch_size)[:most] for part in (X[order], y[order, None])
        ]
        for features, target in zip(*batches, strict=True):
            optimizer.zero_grad()
            errors = target - network(features)
            torch.maximum((quantiles - 1) * errors, quantiles * errors).sum(
                dim=1
            ).mean().backward()
            optimizer.step()
        return len(batches[0])


class Epoch(NamedTuple):
    """Coverage, mean length and pinball loss on the held-out part after a number of
    gradient steps.
    """

    steps: int
    coverage: float
    length: float
    loss: float

    @classmethod
    def of(cls, steps, y, predicted, quantiles) -> "Epoch":
        """Evaluate predictions of the two quantiles."""
        low, high = predicted.T
        errors, levels = y[:, None] - predicted, np.array(quantiles)
        return cls(
            steps,
            coverage=float(np.mean((low <= y) & (y <= high))),
            length=float(np.mean(np.abs(high - low))),
            loss=float(
                np.maximum((levels - 1) * errors, levels * errors).sum(axis=1).mean()
            ),
        )


def _evaluate(network, X) -> np.ndarray:
    import torch

    network.eval()
    with torch.no_grad():
        return network(X).numpy().astype(np.float64)


def _hold_out(n: int, seed: int, share: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on and those to tune on."""
    order = np.random.default_rng([seed, 1]).permutation(n)
    held = max(1, round(share * n))
    return order[held:], order[:held]


MODELS = {model.name: model() for model in (Ridge, Forest, Network)}
SMALL_FOREST = Forest(n_trees=100, n_tuning_trees=50, max_samples=1000)
QUICK_MODELS = MODELS | {"forest": SMALL_FOREST, "network": Network(n_epochs=30)}
"""Small models, for a quick look."""

SYNTHETIC = {
    "min_samples_leaf": 40,
    "coverage_factor": 0.9,
    "held_out": 0.1,
    "n_pairs": 4,
    "innermost": 0.15,
}
"""Settings of the forest in the synthetic example of the CQR paper."""
