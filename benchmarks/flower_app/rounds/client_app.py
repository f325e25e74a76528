"""The way of the package: one report."""

from fedconformal.flower import add_conformal
from rounds import bare_app

app = bare_app.app


def settings(context):
    """Key and policy of a site for masked rounds, and for those beside them."""
    number, folder = context.node_config["partition-id"], context.run_config["masked"]
    files = {
        "signing-key": f"{folder}/site-{number}.pem",
        "policy": f"{folder}/site-{number}.toml",
    }
    return {"partition-id": number, **(files if folder else {})}


add_conformal(app, bare_app.scores, settings=settings)
