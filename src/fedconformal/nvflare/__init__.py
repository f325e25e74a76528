"""One calibration round on NVIDIA FLARE: an executor at the sites, a controller at the
server.

``add_conformal`` adds both to a recipe, as FLARE's own ``add_cross_site_evaluation``
does; a training script that uses FLARE's Client API answers with ``answer``.
``ConformalRecipe`` is a job of the round alone; authors of jobs add
``ConformalController`` and ``ConformalExecutor``, and authors of controllers call
``calibrate``. The Calibration is the one that the same reports in files would give;
``read_calibration`` reads it after a run. ``check`` asks the sites for its coverage of
new cases.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedconformal._extras import need

need("nvflare", extra="nvflare")

if TYPE_CHECKING:
    from fedconformal.nvflare._controller import ConformalController, calibrate, check
    from fedconformal.nvflare._executor import ConformalExecutor
    from fedconformal.nvflare._recipe import (
        ConformalRecipe,
        add_conformal,
        read_calibration,
    )
    from fedconformal.nvflare._site import answer
    from fedconformal.rounds import Failure

__all__ = [
    "ConformalController",
    "ConformalExecutor",
    "ConformalRecipe",
    "add_conformal",
    "answer",
    "calibrate",
    "check",
    "read_calibration",
]

# A site loads neither the server's half nor any mathematics until it answers.
_NAMES_OF = {
    "nvflare._controller": ("ConformalController", "calibrate", "check"),
    "nvflare._executor": ("ConformalExecutor",),
    "nvflare._recipe": ("ConformalRecipe", "add_conformal", "read_calibration"),
    "nvflare._site": ("answer",),
    "rounds": ("Failure",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a name when it is first asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(f"fedconformal.{_MODULE_OF[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(_MODULE_OF)
