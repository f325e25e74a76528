"""One calibration round on NVIDIA FLARE: an executor at the sites, a controller at the server.

``add_conformal`` adds both to a recipe, as FLARE's own ``add_cross_site_evaluation`` does;
``ConformalRecipe`` is a job of the round alone; authors of jobs add ``ConformalController`` and
``ConformalExecutor``, and authors of controllers call ``calibrate``. The Calibration is the one that the same
reports in files would give. ``check`` asks the sites for its coverage of new cases.
"""

from fedconformal._extras import need

need("nvflare", extra="nvflare")

from fedconformal.nvflare._controller import (  # noqa: E402
    ConformalController,
    ConformalRecipe,
    add_conformal,
    calibrate,
    check,
    read_calibration,
)
from fedconformal.nvflare._executor import ConformalExecutor  # noqa: E402
from fedconformal.rounds import Failure  # noqa: E402

__all__ = [
    "ConformalController",
    "ConformalExecutor",
    "ConformalRecipe",
    "add_conformal",
    "calibrate",
    "check",
]
