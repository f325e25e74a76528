"""The ``fedconformal`` command: options and output on a terminal."""

import sys
import warnings
from collections.abc import Sequence

from fedconformal._extras import explain_missing
from fedconformal._text import visible


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; every failure that a user can cause is one line and exit code 2.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands behind ``fedconformal`` on the command line; by default that of this
        process.

    Returns
    -------
    int
        The exit code.

    Examples
    --------
    >>> main(["plan", "--sites", "3", "--points", "-5"])
    2
    """
    try:
        from fedconformal.cli._app import command
    except ModuleNotFoundError as error:
        return _fail(explain_missing(error.name or "a package", "cli"))
    with warnings.catch_warnings():
        warnings.showwarning = _one_line  # type: ignore[assignment]
        return _run(command, list(sys.argv[1:] if arguments is None else arguments))


def _run(command: object, arguments: list[str]) -> int:
    try:
        code = command(args=arguments, standalone_mode=False)  # type: ignore[operator]
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail("stopped", code=130)
    except (BrokenPipeError, SystemExit) as error:
        # The library of the command line ends the process if nobody reads its help to
        # the end.
        if isinstance(error, SystemExit) and not isinstance(
            error.__context__, BrokenPipeError
        ):
            raise
        from fedconformal.cli._show import silence_output

        silence_output()
        return 0
    except (
        ValueError,
        TypeError,
        OSError,
        ImportError,
        MemoryError,
        RecursionError,
    ) as error:
        return _fail(_sentence(error))
    except Exception as error:
        # Which module these come from depends on the version of typer.
        if type(error).__name__ == "Abort":
            return _fail("stopped, nothing was written", code=130)
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        text = _meant(error) or _asked_once(message()) or "see fedconformal --help"
        context = getattr(error, "ctx", None)
        if text.startswith("Missing") and context is not None:
            text += f" See {context.command_path} --help."
        return _fail(text)
    # Typer turns an interrupt into this code without a word.
    return (
        _fail("stopped", code=130)
        if code == 130
        else code
        if isinstance(code, int)
        else 0
    )


def _meant(error: Exception) -> str:
    """Suggest the option of whose name an unknown option is a part; libraries compare
    the spelling alone.
    """
    typed, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if typed is None or context is None:
        return ""
    names = [name for parameter in context.command.params for name in parameter.opts]
    if typed in names:  # known, and used wrongly
        return ""
    longer = [name for name in names if name.startswith(typed)]
    longer = longer or [name for name in names if typed.lstrip("-") in name.split("-")]
    return (
        f"No such option {typed!r}. Did you mean {longer[0]!r}?"
        if len(longer) == 1
        else ""
    )


def _asked_once(message: str) -> str:
    """Keep the first of two suggestions, as two libraries make one."""
    first, question, _ = message.partition("?")
    return first + question + ")" * (first.count("(") - first.count(")"))


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return (
            f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        )
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, UnicodeEncodeError):
        character = ascii(error.object[error.start])
        return (
            f"the terminal's encoding, {error.encoding}, has no {character}: set"
            " PYTHONIOENCODING=utf-8"
        )
    return str(error)


def _fail(message: str, *, code: int = 2) -> int:
    _one_line(message)
    return code


def _one_line(message: Warning | str, *_: object) -> None:
    print("fedconformal: " + visible(" ".join(str(message).split())), file=sys.stderr)


def run() -> None:
    """Entry point of the installed command."""
    sys.exit(main())
