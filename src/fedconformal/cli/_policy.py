"""``fedconformal policy``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fedconformal.cli._command import add, new_app
from fedconformal.cli._options import Force, Json
from fedconformal.cli._show import print_json, table

app = new_app(help="Limits on what a site discloses, regardless of the plan.")

_TEMPLATE = """\
# Limits on what this site discloses, regardless of the plan. A line that starts with # shows the default.

# Largest number of exact scores in one message, over all levels and groups.
# By default 10, or one in twenty of the site's scores if that is more, at most 100.
# max_numbers = 10

# Largest number of exact answers of one data set over its life, as counted in the ledger.
# Without a ledger each message is judged individually.
# max_answers = {max_answers}

# true: exact numbers never leave. false: they may leave even where a ledger is given, which records them.
# By default they may leave where no ledger is given, and are an error where one is.
# private_only = true

# The largest epsilon that one answer may cost. By default the ledger's budget alone decides.
# max_epsilon = 1.0

# "private": counts of all scores leave only with noise. "plain": exact counts may leave too.
# curves = "{curves}"

# Exact counts below this are sent as 0, which can only raise the threshold.
# round_down_to = {round_down_to}

# Smallest group for which anything is sent: a group of one reveals that one.
# min_group = {min_group}

# The only scores and promises that a plan may name. By default any.
# scores = ["absolute"]
# promises = ["population"]

# The coordinator's public key: then only plans and calibrations signed with it are answered.
# coordinator = "ed25519:..."
"""


def new(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("site.toml"),
    force: Force = False,
) -> None:
    """Write a policy with the defaults and an explanation of every line, to be edited."""
    from fedconformal.cli._files import deliver_text
    from fedconformal.protocol import SitePolicy

    text = _TEMPLATE.format(**asdict(SitePolicy()))
    deliver_text(text, path, force=force, note=f": edit it, then answer with --policy {path}")


def show(
    policy: Annotated[Path, typer.Argument(help="A policy file.")],
    json: Json = False,
) -> None:
    """Show a policy, including the defaults."""
    from fedconformal.cli._files import read_policy

    held = asdict(read_policy(policy))
    if json:
        print_json(held)
    else:
        table(["limit", "value"], [[name, _text(value)] for name, value in held.items()])


def _text(value: object) -> str:
    if value is None:
        return "default"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


add(app, new, ["fedconformal policy new site.toml"])
add(app, show, ["fedconformal policy show site.toml"])
