"""Every page of docs can be reached from the front page, which sends each reader to
theirs.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = {"gallery/index", "api/index"}


def entries(page):
    """The pages that a page has in its contents."""
    for block in re.findall(
        r"^```\{toctree\}\n(.*?)^```$", (DOCS / f"{page}.md").read_text(), re.M | re.S
    ):
        for line in filter(None, block.splitlines()):
            if not line.startswith(":"):
                yield re.sub(r".*<(.*)>$", r"\1", line)


def below(page):
    yield page
    for entry in entries(page):
        if entry not in GENERATED:
            yield from below(entry)


def test_every_page_is_in_the_contents_once():
    assert sorted(below("index")) == sorted(path.stem for path in DOCS.glob("*.md"))


def tables(text):
    """Runs of lines that begin with a bar, outside of what is shown as it is."""
    outside = re.sub(r"^(```+).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"(?:^\|.*\n?)+", outside, re.MULTILINE)


def test_tables_are_whole():
    """Each has a head, and as many cells in every row; an empty line would leave rows
    without a head.
    """
    for path in [*DOCS.glob("*.md"), *ROOT.glob("*.md")]:
        for table in tables(path.read_text()):
            rows = [row.replace("\\|", "").count("|") for row in table.splitlines()]
            assert re.match(r"\|.*\n\|[ :|-]+\|(\n|$)", table), (
                path.name,
                table.splitlines()[0],
            )
            assert len(set(rows)) == 1, (path.name, table.splitlines()[0])


def test_first_pages_are_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
    assert len((ROOT / "AGENTS.md").read_text().splitlines()) <= 60


def test_front_page_has_both_commands_of_a_fresh_machine():
    """``make demo`` and ``make test`` need Python alone; the Makefile has both."""
    readme = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert re.search(rf"^    make {target}\b", readme, re.MULTILINE), target
        assert re.search(rf"^{target}: ", makefile, re.MULTILINE), target


def test_printed_install_commands_work_in_a_clone():
    """Nothing is on a package index: extras are those of the folder, and each
    exists.
    """
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for path in [*DOCS.glob("*.md"), *ROOT.glob("*.md")]:
        text = path.read_text()
        assert not re.search(r"pip install (-\S+ )*'?fedconformal", text), path.name
        for names in re.findall(r"'\.\[([a-z,]+)\]'", text):
            assert set(names.split(",")) <= set(extras), f"{path.name}: {names}"
