"""The job in FLARE's simulator: ``job.py workspace sites points repetitions output``."""

import sys

from flare_rounds import Plain, Report, Rounds
from nvflare.job_config.api import FedJob

workspace, sites, points, repetitions, output = sys.argv[1:]
job = FedJob("rounds", min_clients=int(sites))
job.to_server(Rounds(int(sites), int(points), int(repetitions), output))
job.to_clients(Plain(int(points)), tasks=["floor", "everything"])
job.to_clients(Report(int(points)))
sys.exit(job.simulator_run(workspace, n_clients=int(sites), threads=int(sites), log_config="concise"))
