"""That this package is installed wherever a job runs: its code is no part of any job."""

from typing import Any

PACKAGE = __name__.partition(".")[0]


def leave_out_of_jobs(job: Any) -> None:
    """Keep FLARE's job API from copying this package's files into a job, which would make it custom code."""
    packages = job.job.app_packages
    if PACKAGE not in packages:
        job.set_app_packages([*packages, PACKAGE])
