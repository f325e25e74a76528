"""All commands under one name."""

from collections.abc import Callable
from typing import Annotated

import typer

from fedconformal._version import __version__
from fedconformal.cli import _keys, _ledger, _policy
from fedconformal.cli._bins import bins
from fedconformal.cli._calibrate import calibrate
from fedconformal.cli._certificate import certificate
from fedconformal.cli._check import check
from fedconformal.cli._checks import checks
from fedconformal.cli._compare import compare
from fedconformal.cli._demo import demo
from fedconformal.cli._plan import plan
from fedconformal.cli._planner import planner
from fedconformal.cli._predict import predict
from fedconformal.cli._promises import promises
from fedconformal.cli._report import report
from fedconformal.cli._reproduce import reproduce
from fedconformal.cli._verify import verify
from fedconformal.cli._whatif import whatif

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Prediction sets with a coverage guarantee, calibrated on data that never leaves its site.",
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


_COMMANDS: tuple[Callable[..., None], ...] = (
    plan,
    bins,
    report,
    calibrate,
    predict,
    verify,
    certificate,
    check,
    checks,
    compare,
    whatif,
    promises,
    planner,
    demo,
    reproduce,
)
for _command in _COMMANDS:
    app.command()(_command)
app.add_typer(_keys.app, name="keys")
app.add_typer(_ledger.app, name="ledger")
app.add_typer(_policy.app, name="policy")
