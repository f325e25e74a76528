"""All commands under one name: help from commands.toml, options from the signatures of
functions.
"""

import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.resources import files
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from fedconformal._version import __version__
from fedconformal.cli._show import in_options

_TABLES = tomllib.loads(
    files("fedconformal.cli").joinpath("commands.toml").read_text(encoding="utf-8")
)
_METAVARS = {str: "TEXT", Path: "PATH", int: "NUMBER", float: "NUMBER"}
# What the library calls its arguments where an option has another name.
_ARGUMENTS = {
    "n_sites": "sites",
    "n_points": "points",
    "keys": "key",
    "key": "sign_with",
    "groups": "group",
    "local_ranks": "paper",
}


class Command(TyperCommand):
    """Command whose errors name the option that was typed, not the library's
    argument.
    """

    # Help that is the same with every version of typer and of click.

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments, without braces."""
        return [
            piece.replace("}...", "").strip("{}")
            for piece in super().collect_usage_pieces(ctx)
        ]

    def format_arguments(self, ctx: Any, formatter: Any) -> None:
        """Leave the arguments to `format_options`."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options with their texts and defaults."""
        for heading, kind in (("Arguments", "argument"), ("Options", "option")):
            params: list[Any] = [
                param for param in self.get_params(ctx) if param.param_type_name == kind
            ]
            records = []
            for param in params:
                name, text = param.get_help_record(ctx)
                records.append(
                    (
                        param.metavar if kind == "argument" else name,
                        text.replace("\\[", "["),
                    )
                )
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example, and the columns that every score needs where predictions
        are read.
        """
        super().format_epilog(ctx, formatter)
        if any(param.name == "prediction" for param in self.params):
            from fedconformal.cli._report import score_columns

            formatter.write(
                "\nColumns of a prediction, in this order (--prediction a,b or one by"
                " one):\n"
            )
            formatter.write_dl(score_columns())

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except UnicodeEncodeError:  # of the output
            raise
        except (ValueError, TypeError) as error:
            named = {str(param.name): max(param.opts, key=len) for param in self.params}
            options = {
                name: option for name, option in named.items() if option.startswith("-")
            }
            options |= {
                name: options[own] for name, own in _ARGUMENTS.items() if own in options
            }
            raise ValueError(in_options(str(error), options)) from error


class Group(TyperGroup):
    """Commands under one name; their list has whole sentences, and is shown where no
    command is given.
    """

    commands: Any

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the help if there is nothing else to do."""
        if not args and not ctx.resilient_parsing:
            print(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their summaries."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, table["help"]) for name, table in self.commands.tables.items()]
            )


class Commands(Mapping[str, Any]):
    """Commands by name, each loaded when it is asked for: loading all takes longer than
    most commands.
    """

    def __init__(self, tables: dict[str, dict[str, Any]]) -> None:
        self.tables = tables
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Return a command, or a group of commands."""
        if name not in self._loaded:
            load = _load_group if "commands" in self.tables[name] else _load_command
            self._loaded[name] = load(self.tables[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)


def _load_command(table: dict[str, Any]) -> Any:
    """Import the function of a command, and declare its parameters: those by keyword
    alone are options.

    Options that several commands share are the fields of a data class, which is one
    parameter.
    """
    module, _, attribute = table["run"].rpartition(".")
    function = getattr(import_module(f"fedconformal.cli.{module}"), attribute)
    texts = _TABLES["options"] | table["options"]
    parameters: list[Parameter] = []
    shared: dict[str, tuple[Any, list[str]]] = {}
    for parameter in signature(function).parameters.values():
        kind: Any = parameter.annotation
        if not hasattr(kind, "__dataclass_fields__"):
            parameters.append(parameter)
            continue
        fields = [
            field
            for field in signature(kind).parameters.values()
            if field.name in texts
        ]
        parameters += [field.replace(kind=Parameter.KEYWORD_ONLY) for field in fields]
        shared[parameter.name] = kind, [field.name for field in fields]

    def run(**values: Any) -> Any:
        for name, (kind, fields) in shared.items():
            values[name] = kind(**{field: values.pop(field) for field in fields})
        return function(**values)

    declared = [_declare(parameter, texts[parameter.name]) for parameter in parameters]
    run.__signature__ = Signature(declared)  # type: ignore[attr-defined]
    run.__annotations__ = {
        parameter.name: parameter.annotation for parameter in declared
    }
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    epilog = f"\b\nExample:\n  fedconformal {table['example']}"
    app.command(cls=Command, help=table["help"], epilog=epilog)(run)
    command: Any = get_command(app)
    for param in command.params:  # some versions of click lose the help of arguments
        text = texts[param.name]
        param.help = text if isinstance(text, str) else text["help"]
    return command


def _declare(parameter: Parameter, text: str | dict[str, Any]) -> Parameter:
    """Return a parameter with its text and its names on the command line."""
    settings: dict[str, Any] = {"help": text} if isinstance(text, str) else dict(text)
    hint, names = parameter.annotation, settings.pop("names", [])
    kind = _kind(hint)
    if parameter.kind is not Parameter.KEYWORD_ONLY:
        several = "..." * (get_origin(hint) is list)
        declared: Any = typer.Argument(
            **{"metavar": parameter.name.upper() + several} | settings
        )
    else:
        if (
            kind is bool and not names and not parameter.default
        ):  # else typer adds the opposite
            names = [f"--{parameter.name.replace('_', '-')}"]
        defaults = {} if kind is bool else {"metavar": _METAVARS[kind]}
        declared = typer.Option(*names, **defaults | settings)
    return parameter.replace(annotation=Annotated[hint, declared])


def _kind(hint: Any) -> Any:
    """Return the type of one value: str of `list[str] | None`."""
    inner = [kind for kind in get_args(hint) if kind is not type(None)]
    return _kind(inner[0]) if inner else hint


def _load_group(table: dict[str, Any], callback: Any = None, **options: Any) -> Any:
    """Return a group of commands with plain help, which is quick to show and is never
    cut.
    """
    app = typer.Typer(
        cls=Group,
        rich_markup_mode=None,
        help=table["help"],
        add_completion=callback is not None,
        **options,
    )
    app.callback()(callback or (lambda: None))
    group: Any = get_command(app)
    group.commands = Commands(table["commands"])
    return group


def _print_version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Show the version.",
        ),
    ] = False,
) -> None:
    pass


command = _load_group(
    _TABLES,
    _common,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_TABLES["epilog"],
)
"""The command, whose commands are loaded when they are used."""
