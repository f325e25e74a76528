"""scikit-learn estimators for rows of many sites: ``conformalize(X, y, sites=...)``, then predict."""

from fedconformal._extras import need

need("sklearn", extra="sklearn")

from fedconformal.estimators._classifier import FederatedConformalClassifier  # noqa: E402
from fedconformal.estimators._regressor import FederatedConformalRegressor  # noqa: E402

__all__ = ["FederatedConformalClassifier", "FederatedConformalRegressor"]
