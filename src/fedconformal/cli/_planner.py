"""``fedconformal planner``."""

from typing import Annotated

import typer

from fedconformal.cli._show import say

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def planner(
    host: Annotated[
        str, typer.Option(help="Address to listen at; the default is this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any that is free.")] = 8484,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name that requests may call this server by.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open a web page for planning with sliders."""
    from fedconformal import web

    if host.lower() not in _THIS_MACHINE:
        say("Whoever can reach this machine can use the planner.")
    web.serve(host=host, port=port, allow_hosts=allow_host or [], browse=browser, announce=_announce)


def _announce(address: str) -> None:
    print(f"planner: {address}", flush=True)
    say("Ctrl-C stops it.")
