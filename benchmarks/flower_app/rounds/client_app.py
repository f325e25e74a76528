"""The way of the package: one report."""

from fedconformal.flower import add_conformal
from rounds import bare_app

app = bare_app.app
add_conformal(app, bare_app.scores)
