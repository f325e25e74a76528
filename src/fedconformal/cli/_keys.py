"""``fedconformal keys``."""

from pathlib import Path
from typing import Annotated

import typer

from fedconformal.cli._command import add, new_app
from fedconformal.cli._options import Force
from fedconformal.cli._show import say

app = new_app(help="Ed25519 keys of a site.")


def new(
    name: Annotated[str, typer.Argument(help="The site's name: the key goes to NAME.key.")] = "site",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it instead.")] = None,
    force: Force = False,
) -> None:
    """Make a key: the private part goes to a file, the public part is printed."""
    from fedconformal._files import STANDARD
    from fedconformal.cli._files import check_output, deliver_text
    from fedconformal.documents import SigningKey

    path = output or Path(f"{name}.key")
    check_output(path, force=force)
    made = SigningKey.new()
    note = ": keep it at the site; the plan lists the public key"
    deliver_text(made.to_pem().decode(), path, force=force, mode=0o600, note=note)
    (say if path == STANDARD else print)(made.public_key)


def show(key: Annotated[Path, typer.Argument(help="A private key file.")]) -> None:
    """Print the public part of a key."""
    from fedconformal.cli._files import read_key

    print(read_key(key).public_key)


add(app, new, ["fedconformal keys new north"])
add(app, show, ["fedconformal keys show north.key"])
