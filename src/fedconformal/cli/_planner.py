"""The planner's page, served to this machine."""

from fedconformal._extras import need
from fedconformal.cli._show import say


def run(*, host: str, port: int, allow_hosts: list[str], browse: bool) -> None:
    """Serve until interrupted."""
    for module in ("starlette", "uvicorn"):
        need(module, extra="web")
    from fedconformal.planner import serve
    from fedconformal.planner._guard import LOOPBACK

    if host not in LOOPBACK:
        say("Whoever can reach this machine can use the planner.")

    def tell(address: str) -> None:
        print(f"planner: {address}", flush=True)
        say("Ctrl-C stops it.")

    serve(host=host, port=port, allow_hosts=allow_hosts, browse=browse, tell=tell)
