"""All commands under one name: help with an example, errors that name options as they are typed."""

from contextlib import suppress
from inspect import signature
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from fedconformal._version import __version__
from fedconformal.cli import _site
from fedconformal.cli._calibrate import calibrate, verify
from fedconformal.cli._check import check
from fedconformal.cli._compare import compare
from fedconformal.cli._demo import demo
from fedconformal.cli._options import in_options, options_by_argument
from fedconformal.cli._pages import certificate, planner
from fedconformal.cli._plan import plan
from fedconformal.cli._predict import predict
from fedconformal.cli._report import report
from fedconformal.cli._show import silence_output

_COMMANDS: tuple[tuple[Any, str], ...] = (
    (plan, "plan --points north=120,south=40,west=377 --score absolute -o plan.json"),
    (report, "report plan.json cases.csv --site north --target truth --prediction guess -o north.json"),
    (calibrate, "calibrate plan.json north.json south.json west.json -o calibration.json"),
    (predict, "predict calibration.json new.csv --column guess -o intervals.csv"),
    (verify, "verify calibration.json --reports north.json --reports south.json --reports west.json"),
    (certificate, "certificate calibration.json -o certificate.html"),
    (check, "check calibration.json later.csv --site north --target truth --prediction guess -o later.json"),
    (compare, "compare plan.json north.json south.json west.json --reference public.csv"),
    (planner, "planner --port 8484"),
    (demo, "demo --directory demo"),
    (_site.new_key, "keys new north"),
    (_site.show_key, "keys show north.key"),
    (_site.new_ledger, "ledger new site.db"),
    (_site.set_budget, "ledger budget site.db trial 4"),
    (_site.accept_scores, 'ledger accept site.db trial scores.csv --reason "a new model"'),
    (_site.check_ledger, "ledger check site.db"),
    (_site.show_ledger, "ledger show site.db"),
    (_site.new_policy, "policy new site.toml"),
    (_site.show_policy, "policy show site.toml"),
)
_GROUPS = {
    "keys": "Ed25519 keys of a site.",
    "ledger": "A site's account of its privacy budget.",
    "policy": "Limits on what a site discloses, regardless of the plan.",
}


class Command(TyperCommand):
    """Command whose errors name the option that was typed, not the library's argument."""

    texts: ClassVar[dict[str, str]] = {}
    """Help of its arguments, which some versions of typer leave out."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options with their texts and defaults."""
        for heading, kind in (("Arguments", "argument"), ("Options", "option")):
            params = [param for param in self.get_params(ctx) if param.param_type_name == kind]
            records = [record for param in params if (record := self._record(param, ctx)) is not None]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def _record(self, param: Any, ctx: Any) -> tuple[str, str] | None:
        record = param.get_help_record(ctx)
        if record is None:
            return None
        name, text = record[0], record[1].replace("\\[", "[")  # escaped for another kind of help
        meaning = self.texts.get(param.name, "")
        return name, text if meaning in text else f"{meaning}  {text}"

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the library of the command line would call it a failure
            silence_output()
            return None
        except (ValueError, TypeError) as error:
            raise ValueError(in_options(str(error), options_by_argument(self.params))) from error


class ReportCommand(Command):
    """Command whose help lists the columns that every score needs."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example, and a table of all registered scores."""
        super().format_epilog(ctx, formatter)
        formatter.write("\nColumns of a prediction, in this order (--prediction a,b or one by one):\n")
        formatter.write_dl(score_columns())


def score_columns() -> list[tuple[str, str]]:
    """Return all scores by name, with the columns of a prediction that each needs."""
    from fedconformal.scores import SCORES, from_name

    columns = []
    for name in SCORES:
        with suppress(ValueError, TypeError):  # a score with required parameters
            columns.append((name, from_name(name).column_help()))
    return columns


class Group(TyperGroup):
    """Commands under one name; their list has whole sentences, and is shown where no command is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the help if there is nothing else to do."""
        if not args and not ctx.resilient_parsing:
            print(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their summaries."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(limit=500)) for name, command in self.commands.items()]
            )


def _new_app(**options: Any) -> typer.Typer:
    """Return a group of commands with plain help, which is quick to show and is never cut."""
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    return typer.Typer(cls=Group, rich_markup_mode=None, context_settings=settings, **options)


def _add(group: typer.Typer, name: str, function: Any, example: str) -> None:
    """Add a command, with an example at the end of its help."""
    base = ReportCommand if function is report else Command
    declared = signature(function).parameters.values()
    texts = {param.name: param.annotation.__metadata__[0].help for param in declared}
    kind = type(base.__name__, (base,), {"texts": texts})
    group.command(name, cls=kind, epilog=f"\b\nExample:\n  fedconformal {example}")(function)


def _print_version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


app = _new_app(
    pretty_exceptions_enable=False,
    help="Prediction sets with a coverage guarantee, calibrated on data that never leaves its site.",
    epilog="Exit codes: 0 success, 1 not verified, 2 usage or data error, 3 infinite threshold (plan "
    "--exit-code), 130 interrupted. A file named - is standard input, or standard output.",
)


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


_groups = {name: _new_app(help=text) for name, text in _GROUPS.items()}
for _function, _example in _COMMANDS:
    _first, _second, *_ = _example.split()
    if _first in _groups:
        _add(_groups[_first], _second, _function, _example)
    else:
        _add(app, _first, _function, _example)
for _first, _group in _groups.items():
    app.add_typer(_group, name=_first)

command = get_command(app)
"""The command, made once: making it takes longer than most commands."""
