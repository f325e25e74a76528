"""All commands under one name."""

from collections.abc import Callable
from typing import Annotated

import typer
from typer.main import get_command

from fedconformal._version import __version__
from fedconformal.cli import _keys, _ledger, _policy
from fedconformal.cli._calibrate import calibrate
from fedconformal.cli._check import check
from fedconformal.cli._checks import checks
from fedconformal.cli._command import Command, ReportCommand, add, new_app
from fedconformal.cli._compare import compare
from fedconformal.cli._demo import demo
from fedconformal.cli._plan import plan
from fedconformal.cli._planner import planner
from fedconformal.cli._predict import predict
from fedconformal.cli._report import report
from fedconformal.cli._verify import certificate, verify

app = new_app(
    pretty_exceptions_enable=False,
    help="Prediction sets with a coverage guarantee, calibrated on data that never leaves its site.",
    epilog="Exit codes: 0 success, 1 not verified, 2 usage or data error, 3 infinite threshold (plan "
    "--exit-code), 130 interrupted. A file named - is standard input, or standard output.",
)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


_COMMANDS: tuple[tuple[Callable[..., None], str], ...] = (
    (plan, "plan --points north=120,south=40,west=377 --score absolute -o plan.json"),
    (report, "report plan.json cases.csv --site north --target truth --prediction guess -o north.json"),
    (calibrate, "calibrate plan.json north.json south.json west.json -o calibration.json"),
    (predict, "predict calibration.json new.csv --column guess -o intervals.csv"),
    (verify, "verify calibration.json --reports north.json --reports south.json --reports west.json"),
    (certificate, "certificate calibration.json -o certificate.html"),
    (check, "check calibration.json later.csv --site north --target truth --prediction guess -o later.json"),
    (checks, "checks calibration.json later.json"),
    (compare, "compare plan.json north.json south.json west.json --reference public.csv"),
    (planner, "planner --port 8484"),
    (demo, "demo --directory demo"),
)
for _command, _example in _COMMANDS:
    add(app, _command, [f"fedconformal {_example}"], cls=ReportCommand if _command is report else Command)
app.add_typer(_keys.app, name="keys")
app.add_typer(_ledger.app, name="ledger")
app.add_typer(_policy.app, name="policy")

command = get_command(app)
"""The command, made once: making it takes longer than most commands."""
