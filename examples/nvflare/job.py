"""Train by FedAvg, calibrate, check, in FLARE's simulator; with ``--export`` the job goes to a folder."""

import argparse
import os
from pathlib import Path

from calibration import DigitsExecutor
from nvflare.app_opt.sklearn.recipes.fedavg import SklearnFedAvgRecipe
from nvflare.recipe import SimEnv

import fedconformal as fc
from fedconformal.nvflare import add_conformal, read_calibration

parser = argparse.ArgumentParser()
parser.add_argument("--sites", type=int, default=4)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--workspace", default="simulation")
given = parser.parse_args()
workspace = os.path.abspath(given.workspace)
os.chdir(Path(__file__).parent)  # so that the job names its script without a folder

recipe = SklearnFedAvgRecipe(
    name="digits",
    min_clients=given.sites,
    num_rounds=given.rounds,
    model_params={"classes": 10},
    train_script="client.py",
    train_args=f"--sites {given.sites}",
)
plan = fc.plan(n_sites=given.sites, confidence_level=0.97)
add_conformal(recipe, plan, DigitsExecutor(given.sites), timeout=120, check=True)

run = recipe.execute(SimEnv(num_clients=given.sites, workspace_root=workspace, log_config="concise"))
result = Path(run.get_result())
calibration = read_calibration(result)
print(f"threshold {calibration.threshold:.4f} from {calibration.n_answers} of {given.sites} sites")
print(f"asked for 0.97: the coverage is {calibration.law.mean():.3f} on average")
print(f"and above {calibration.law.ppf(0.05):.3f} in 95 % of calibrations")
print(next(result.rglob("check.txt")).read_text(), end="")
