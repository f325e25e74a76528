"""scikit-learn estimators for rows of many sites: ``conformalize(X, y, sites=...)``,
then predict.
"""

from fedconformal._extras import need

need("sklearn", extra="sklearn")

from fedconformal.estimators._models import (  # noqa: E402
    FederatedConformalClassifier,
    FederatedConformalRegressor,
)
from fedconformal.estimators._risk import FederatedRiskController  # noqa: E402

__all__ = [
    "FederatedConformalClassifier",
    "FederatedConformalRegressor",
    "FederatedRiskController",
]
