"""Base of all commands: help with an example, and errors that name options as they are typed."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from inspect import signature
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

# What the library calls its arguments where an option has another name.
_ARGUMENTS = {
    "n_sites": "sites",
    "n_points": "points",
    "keys": "key",
    "groups": "group",
    "shifts": "shift",
    "round": "round_id",
}
_ANYWHERE = r"(?<![\w'\"./-])", r"(?![\w'\"=./-])"
_AS_SUBJECT = r"\A", r"(?=(?:\[\d+\])? (?:must|does|goes|is|are|was|needs|and|cannot) )"
_BOTH_WAYS = re.compile(r"\w+=\w+ \((--[^)]+)\)")


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
            hush()
            return None
        except (ValueError, TypeError) as error:
            raise ValueError(in_options(str(error), _options(self.params))) from error


def hush() -> None:
    """Discard all further output, after somebody has closed the pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


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

    found = []
    for name in SCORES:
        with suppress(ValueError, TypeError):  # a score with required parameters
            found.append((name, from_name(name).column_help()))
    return found


def _options(params: Iterable[Any]) -> dict[str, str]:
    """Options by the name of the argument that they become."""
    named = {str(param.name): max(param.opts, key=len) for param in params if param.opts[0].startswith("-")}
    also = {argument: named[name] for argument, name in _ARGUMENTS.items() if name in named}
    return {**named, **also}


def in_options(message: str, options: dict[str, str]) -> str:
    """Translate a message of the library into the words of the command line.

    Names with an underscore are replaced wherever they stand, others only as the subject of a sentence.

    Parameters
    ----------
    message : str
        As the library wrote it.
    options : dict
        Options by the name of the argument.

    Returns
    -------
    str

    Examples
    --------
    >>> in_options("n_sites must be >= 1, got 0", {"n_sites": "--sites"})
    '--sites must be >= 1, got 0'
    >>> in_options("max_missing=1 (--max-missing 1) plans for that", {})
    '--max-missing 1 plans for that'
    """
    text = _BOTH_WAYS.sub(r"\1", message)
    for name, option in options.items():
        where, follows = _ANYWHERE if "_" in name else _AS_SUBJECT
        text = re.sub(f"{where}{re.escape(name)}{follows}", option, text)
    return text


class Group(TyperGroup):
    """Commands under one name, whose list has whole sentences."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their summaries."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(limit=500)) for name, command in self.commands.items()]
            )


def new_app(**options: Any) -> typer.Typer:
    """Return a group of commands with plain help, which is quick to show and is never cut."""
    return typer.Typer(
        cls=Group,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        **options,
    )


def add(
    app: typer.Typer, command: Any, examples: Sequence[str], *, cls: type[TyperCommand] = Command
) -> None:
    """Add a command under its own name, with examples at the end of its help."""
    heading = "Example" if len(examples) == 1 else "Examples"
    lines = "\n".join(f"  {example}" for example in examples)
    declared = signature(command).parameters.values()
    texts = {param.name: param.annotation.__metadata__[0].help for param in declared}
    kind = type(cls.__name__, (cls,), {"texts": texts})
    app.command(cls=kind, epilog=f"\b\n{heading}:\n{lines}")(command)
