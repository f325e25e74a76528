"""What each extra promises, tried in a few lines: ``python tools/smoke.py EXTRA`` with
only that installed.

``core`` needs nothing but the wheel. Run in an empty folder: files are written there,
and the source tree is not in the way.
"""

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import fedconformal as fc

SIZES = {"north": 120, "south": 40, "west": 377}
TESTS = Path(__file__).resolve().parent.parent / "tests"


def fedconformal(*words: str, code: int = 0) -> str:
    """What the command prints on both streams; it must end with this code."""
    command = [sys.executable, "-m", "fedconformal", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def scores_of(site: str) -> np.ndarray:
    """The scores of a site."""
    return np.random.default_rng(len(site)).gamma(2.0, size=SIZES[site])


def calibrated() -> fc.Calibration:
    """Plan, report, calibrate, predict and verify, with the core alone."""
    plan = fc.plan(n_points=SIZES, numbers=2, score="absolute")
    (design,) = plan.designs
    calibration = fc.calibrate(
        plan,
        [fc.report(plan, scores_of(name), site=name) for name in design.asked_names],
    )
    assert np.isfinite(calibration.threshold)
    assert all(finding.holds is not False for finding in fc.audit.verify(calibration))
    assert calibration.predict_interval(np.zeros(3)).shape[0] == 3
    assert fc.Calibration.from_json(calibration.to_json()) == calibration
    return calibration


def core() -> None:
    """The whole story; what is missing names its extra."""
    calibration = calibrated()
    assert "pip install '.[cli]'" in without_templates(calibration)
    assert "pip install '.[cli]'" in fedconformal("plan", code=2)
    for name in ("plots", "flower", "nvflare"):
        assert f"pip install '.[{name}]'" in missing(name)


def without_templates(calibration: fc.Calibration) -> str:
    """What is said to somebody who asks for a certificate without an extra; notebooks
    show a line of text.
    """
    assert calibration._repr_html_() is None
    try:
        return fc.pages.certificate(calibration)
    except ImportError as error:
        return str(error)


def missing(name: str) -> str:
    """What is said to somebody who asks for a room whose extra is not there."""
    try:
        getattr(fc, name)
    except ImportError as error:
        return str(error)
    return f"{name} can be had without its extra"


def cli() -> None:
    """The whole story in files, on the command line."""
    for site in SIZES:
        np.savetxt(f"{site}.csv", scores_of(site), header="score", comments="")
    np.savetxt("predictions.csv", np.arange(5.0), header="prediction", comments="")
    sizes = ",".join(f"{site}={n}" for site, n in SIZES.items())
    fedconformal("keys", "new", "north")
    fedconformal("plan", "--points", sizes, "-o", "plan.json")
    for site in SIZES:
        fedconformal(
            "report", "plan.json", f"{site}.csv", "--site", site, "-o", f"{site}.json"
        )
    fedconformal(
        "calibrate",
        "plan.json",
        *(f"{site}.json" for site in SIZES),
        "-o",
        "calibration.json",
    )
    fedconformal(
        "predict", "calibration.json", "predictions.csv", "-o", "intervals.csv"
    )
    assert len(Path("intervals.csv").read_text().splitlines()) == 6
    assert "verified" in fedconformal("verify", "calibration.json")
    fedconformal("certificate", "calibration.json", "-o", "certificate.html")
    assert "'.[web]'" in fedconformal("planner", "--no-browser", code=2)


def excel() -> None:
    """Scores from a workbook."""
    cells = "".join(
        f'<row r="{i}"><c r="A{i}"><v>{i * 0.25}</v></c></row>' for i in range(2, 62)
    )
    first = '<row r="1"><c r="A1" t="inlineStr"><is><t>score</t></is></c></row>'
    write_workbook(Path("scores.xlsx"), first + cells)
    fedconformal("plan", "--points", "A=60,B=60", "-o", "plan.json")
    fedconformal("report", "plan.json", "scores.xlsx", "--site", "A", "-o", "A.json")
    assert fc.Report.read("A.json").site == "A"


def write_workbook(path: Path, rows: str) -> None:
    """The smallest workbook there is, with one sheet."""
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    package = "http://schemas.openxmlformats.org/package/2006"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": (
            f'<Types xmlns="{package}/content-types"><Default Extension="rels"'
            ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            "<Override"
            ' PartName="/xl/workbook.xml"'
            f' ContentType="{kind}.sheet.main+xml"/><Override'
            ' PartName="/xl/worksheets/sheet1.xml"'
            f' ContentType="{kind}.worksheet+xml"/></Types>'
        ),
        "_rels/.rels": (
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
            f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
        ),
        "xl/workbook.xml": (
            f'<workbook {main} xmlns:r="{office}"><sheets>'
            '<sheet name="Scores" sheetId="1" r:id="rId1"/></sheets></workbook>'
        ),
        "xl/_rels/workbook.xml.rels": (
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1"'
            f' Type="{office}/worksheet"'
            ' Target="worksheets/sheet1.xml"/></Relationships>'
        ),
        "xl/worksheets/sheet1.xml": (
            f"<worksheet {main}><sheetData>{rows}</sheetData></worksheet>"
        ),
    }
    with zipfile.ZipFile(path, "w") as workbook:
        for name, text in parts.items():
            workbook.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')


def sklearn() -> None:
    """Intervals and sets from estimators."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X.sum(axis=1) + rng.normal(size=300)
    site = rng.integers(4, size=200)
    regressor = fc.FederatedConformalRegressor(LinearRegression().fit(X[:100], y[:100]))
    regressor.conformalize(X[100:], y[100:], sites=site)
    assert regressor.predict_interval(X)[1].shape == (300, 2, 1)
    classifier = fc.FederatedConformalClassifier(
        LogisticRegression().fit(X[:100], y[:100] > 0)
    )
    classifier.conformalize(X[100:], y[100:] > 0, sites=site)
    assert classifier.predict_set(X)[1].shape == (300, 2, 1)


def private() -> None:
    """A private report, charged to a ledger."""
    plan = fc.plan(
        n_sites=5,
        n_points=200,
        privacy=fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 5, 50)),
    )
    ledger = fc.Ledger.create(Path("ledger.db"))
    ledger.set_budget("scores", 2.0)
    scores = np.random.default_rng(0).gamma(1.0, size=200)
    fc.report(plan, scores, site="A", ledger=ledger, dataset="scores")
    assert ledger.remaining("scores") == 0


def flower() -> None:
    """A round with Flower's messages gives the calibration that files give."""
    sys.path.insert(0, str(TESTS / "flower"))
    from flower_grid import LocalGrid
    from flwr.clientapp import ClientApp

    def node(site: str) -> tuple[ClientApp, dict[str, str]]:
        app = ClientApp()
        fc.flower.add_conformal(app, lambda context: scores_of(site))
        return app, {"site": site}

    plan = fc.plan(n_points=SIZES)
    found = fc.flower.calibrate(
        LocalGrid([node(site) for site in SIZES]), plan, timeout=60
    )
    assert found == fc.calibrate(
        plan, [fc.report(plan, scores_of(site), site=site) for site in SIZES]
    )


def nvflare() -> None:
    """A job in FLARE's simulator, with three sites in processes of its own."""
    from nvflare.recipe import SimEnv

    Path("smoke_sites.py").write_text(
        "import numpy as np\nfrom fedconformal.nvflare import"
        " ConformalExecutor\n\n\nclass Scores(ConformalExecutor):\n    def scores(self,"
        " plan, model, fl_ctx):\n        return"
        " np.random.default_rng(int(fl_ctx.get_identity_name()[-1])).gamma(2.0,"
        " size=80)\n"
    )
    sys.path.insert(0, str(Path.cwd()))
    from smoke_sites import Scores

    plan = fc.plan(n_sites=3, n_points=80)
    recipe = fc.nvflare.ConformalRecipe(plan, Scores(), timeout=60)
    environment = SimEnv(
        num_clients=3,
        workspace_root=str(Path.cwd() / "simulation"),
        log_config="concise",
    )
    found = fc.nvflare.read_calibration(recipe.execute(environment))
    assert found.n_answers == 3
    assert np.isfinite(found.threshold)


def plots() -> None:
    """A picture."""
    import matplotlib

    matplotlib.use("Agg")
    display = fc.plots.CoverageLawDisplay.from_plan(fc.plan(n_sites=5, n_points=50))
    display.ax_.figure.savefig("law.png")
    assert Path("law.png").stat().st_size > 5000


def web() -> None:
    """The planner answers over HTTP: its page, and a plan."""
    import json
    from urllib.request import Request, urlopen

    from fedconformal.pages._server import background

    with background() as address:
        assert b"<html" in urlopen(address, timeout=60).read()
        wish = json.dumps({"sites": 5, "points": 50}).encode()
        asked = Request(
            f"{address}api/plan", wish, {"Content-Type": "application/json"}
        )
        assert b'id="headline"' in urlopen(asked, timeout=60).read()


SMOKE: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        core,
        cli,
        excel,
        sklearn,
        private,
        flower,
        nvflare,
        plots,
        web,
    )
}

if __name__ == "__main__":
    source = TESTS.parent / "src"
    assert not Path(fc.__file__).resolve().is_relative_to(source), (
        "this is the source tree, not the wheel"
    )
    SMOKE[sys.argv[1]]()
    print(f"{sys.argv[1]}: works")
