"""A job of one round in FLARE's simulator: ``job.py workspace kind sites points
output``.
"""

import sys

from nvflare.job_config.api import FedJob

workspace, kind, sites, points, output = sys.argv[1:]
job = FedJob(kind, min_clients=int(sites))
if kind in ("ours", "counts", "masked"):
    from conformal_round import ConformalRound
    from conformal_site import Report

    job.to_server(ConformalRound(kind, int(sites), int(points), output))
    job.to_clients(Report(int(points)))
else:
    from plain_rounds import Plain, PlainRound

    job.to_server(PlainRound(kind, int(sites), int(points), output))
    job.to_clients(Plain(int(points)), tasks=[kind])
sys.exit(
    job.simulator_run(
        workspace, n_clients=int(sites), threads=int(sites), log_config="concise"
    )
)
