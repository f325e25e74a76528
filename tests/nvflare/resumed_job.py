"""A job whose training never gives the same model twice, and whose second site waits
for a file.

``resumed_job.py home`` trains and calibrates in FLARE's simulator, with reports and
model in ``home/kept``.
"""

import os
import sys
from pathlib import Path

from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.recipe import SimEnv

import fedconformal as fc

home = Path(sys.argv[1])
os.chdir(Path(__file__).parent)
recipe = NumpyFedAvgRecipe(
    name="resumed",
    model=[1.0, 2.0, 3.0],
    min_clients=2,
    num_rounds=1,
    train_script="resumed_client.py",
    train_args=str(home),
)
plan = fc.plan(n_points={"site-1": 40, "site-2": 40}, confidence_level=0.8)
fc.nvflare.add_conformal(recipe, plan, timeout=300, reports=str(home / "kept"))
run = recipe.execute(
    SimEnv(num_clients=2, workspace_root=str(home / "simulation"), log_config="concise")
)
print(fc.nvflare.read_calibration(run).n_answers, "sites answered")
