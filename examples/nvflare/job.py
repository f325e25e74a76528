"""Train by FedAvg, calibrate, check, in FLARE's simulator; with ``--export`` the job
goes to a folder.
"""

import argparse
import os
from pathlib import Path

from nvflare.app_opt.sklearn.recipes.fedavg import SklearnFedAvgRecipe
from nvflare.recipe import PocEnv, SimEnv

import fedconformal as fc

parser = argparse.ArgumentParser()
parser.add_argument("--sites", type=int, default=4)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--workspace", default="simulation", help="of the simulator")
parser.add_argument(
    "--poc", action="store_true", help="in POC mode, with a process for every site"
)
parser.add_argument(
    "--external",
    action="store_true",
    help="the training script in a process of its own",
)
parser.add_argument(
    "--keep", default="results", help="a folder for the results of all runs"
)
given = parser.parse_args()
workspace, keep = os.path.abspath(given.workspace), os.path.abspath(given.keep)
os.chdir(Path(__file__).parent)  # so that the job names its script without a folder

recipe = SklearnFedAvgRecipe(
    name="digits",
    min_clients=given.sites,
    num_rounds=given.rounds,
    model_params={"classes": 10},
    train_script="client.py",
    train_args=f"--sites {given.sites}",
    launch_external_process=given.external,
)
plan = fc.plan(n_sites=given.sites, confidence_level=0.97, score="lac")
fc.nvflare.add_conformal(recipe, plan, timeout=120, check=True)

if given.poc:
    run = recipe.execute(PocEnv(num_clients=given.sites))
else:
    run = recipe.execute(
        SimEnv(num_clients=given.sites, workspace_root=workspace, log_config="concise")
    )
calibration = fc.nvflare.read_calibration(run, keep=keep)
print(
    f"threshold {calibration.threshold:.4f} from {calibration.n_answers} of"
    f" {given.sites} sites"
)
print(f"asked for 0.97: the coverage is {calibration.law.mean():.3f} on average")
print(f"and above {calibration.law.ppf(0.05):.3f} in 95 % of calibrations")
newest = max(Path(keep).iterdir(), key=os.path.getmtime)
print((newest / "check.txt").read_text(), end="")
print(f"calibration, model and reports are in {newest}")
