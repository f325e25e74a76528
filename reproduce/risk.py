"""Risk as the coverage of a randomised score: its exact distribution, and simulated
federations.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import fedconformal as fc
from reproduce.drawing import BLUE, VERMILION, panels
from reproduce.protocol import Settings

N_SITES, N_POINTS, N_RUNS = 10, 100, 2000


def compute(settings: Settings) -> pd.DataFrame:
    """Return the risk of each simulated calibration, sorted, beside the exact
    distribution function.

    A case of size T, uniform on (0, 1), loses the share max(0, 1 - t/T) at the setting
    t. Its score, the smallest t with a loss of at most a uniform U, is T(1 - U), and
    the risk at t is 1 - t + t log t.
    """
    plan = fc.plan(N_SITES, N_POINTS, confidence_level=settings.level)
    (local,) = set(plan.local_ranks)
    rng = np.random.default_rng(0)
    scores = np.prod(rng.random((2, N_RUNS, N_SITES, N_POINTS)), axis=0)
    sent = np.sort(np.sort(scores, axis=2)[:, :, local - 1], axis=1)
    thresholds = sent[:, plan.server_rank - 1]
    risks = np.sort(1 - thresholds + thresholds * np.log(thresholds))
    exact = [
        plan.law.sf(1 - risk) for risk in risks
    ]  # the risk is below r if the coverage is above 1 - r
    simulated = (np.arange(N_RUNS) + 0.5) / N_RUNS
    return pd.DataFrame({"risk": risks, "simulated": simulated, "exact": exact})


def draw(rows: pd.DataFrame) -> Figure:
    """Draw both distribution functions."""
    figure, ((axes,),) = panels(1, 1, (5.6, 3.8))
    axes.step(
        rows["risk"],
        rows["simulated"],
        color=VERMILION,
        label=f"{len(rows)} simulated calibrations",
    )
    axes.plot(
        rows["risk"],
        rows["exact"],
        "--",
        color=BLUE,
        label="exact distribution of the coverage",
    )
    axes.axvline(0.1, color="black", linestyle=":", linewidth=1)
    axes.set(xlabel="mean loss at the threshold", ylabel="distribution function")
    axes.set_title(f"risk 0.1, m = {N_SITES}, n = {N_POINTS}: one number per site")
    axes.legend(fontsize="small", loc="lower right")
    return figure
