"""``fedconformal keys``."""

from pathlib import Path
from typing import Annotated

import typer

from fedconformal.cli._options import Force
from fedconformal.cli._show import say

app = typer.Typer(no_args_is_help=True, help="Ed25519 keys of a site.")


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The site's name: the key goes to NAME.key.")] = "site",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it instead.")] = None,
    force: Force = False,
) -> None:
    """Make a key: the private part goes to a file, the public part is printed."""
    from fedconformal._outputs import check_free, write_text
    from fedconformal.documents import SigningKey

    path = output or Path(f"{name}.key")
    check_free(path, force=force)
    made = SigningKey.new()
    write_text(path, made.to_pem().decode(), force=force, mode=0o600)
    say(f"wrote {path}: keep it at the site; the plan lists the public key")
    print(made.public_key)


@app.command()
def show(key: Annotated[Path, typer.Argument(help="A private key file.")]) -> None:
    """Print the public part of a key."""
    from fedconformal._outputs import warn_if_shared
    from fedconformal.documents import SigningKey

    print(SigningKey.from_pem(key.read_bytes()).public_key)
    warn_if_shared(key)
