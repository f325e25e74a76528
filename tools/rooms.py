"""Draw the rooms and the arrows between them: ``python tools/rooms.py``, or ``make architecture``.

The rows are the layers of the import-linter contract in pyproject.toml, the arrows are imports that really
exist, without those that follow from others. Writes docs/figures/rooms.png, and the table of imports in
docs/architecture.md, which a test compares with the code.
"""

import sys
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms: begin -->\n", "<!-- rooms: end -->\n"


def layers() -> list[list[str]]:
    """The rooms from the top, as the contract has them; helper modules are left out."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = next(contract["layers"] for contract in contracts if contract["id"] == "rooms")
    rooms = [[room.strip() for room in row.split("|")] for row in rows]
    return [row for row in rooms if not all(room.startswith("_") for room in row)]


def imports(rows: list[list[str]]) -> dict[str, set[str]]:
    """Which rooms each room imports directly."""
    graph = grimp.build_graph("fedconformal", cache_dir=None)
    rooms = [room for row in rows for room in row]
    return {
        room: {other for other in rooms if other != room and _direct(graph, room, other)} for room in rooms
    }


def _direct(graph: grimp.ImportGraph, room: str, other: str) -> bool:
    inside = {f"fedconformal.{room}", *graph.find_descendants(f"fedconformal.{room}")}
    targets = {f"fedconformal.{other}", *graph.find_descendants(f"fedconformal.{other}")}
    return any(graph.find_modules_directly_imported_by(module) & targets for module in inside)


def table(found: dict[str, set[str]], rows: list[list[str]]) -> str:
    """The imports as a Markdown table, lowest room last."""
    lines = ["| room | imports |", "|---|---|"]
    for room in (room for row in rows for room in row):
        below = [other for row in rows for other in row if other in found[room]]
        lines.append(f"| `{room}` | {', '.join(f'`{other}`' for other in below) or 'nothing'} |")
    return "\n".join(lines) + "\n"


def page_with(text: str, content: str) -> str:
    """The page with its table replaced."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{content}{END}{rest.partition(END)[2]}"


def reduced(found: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Arrows that do not follow from others."""

    def reaches(start: str, end: str) -> bool:
        return end in found[start] or any(reaches(between, end) for between in found[start])

    return [
        (room, other)
        for room, below in found.items()
        for other in below
        if not any(reaches(between, other) for between in below - {other})
    ]


def draw(rows: list[list[str]], arrows: list[tuple[str, str]], path: Path) -> None:
    """One row a layer, an arrow for each import."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 0.85 * len(rows)))
    places = {
        room: ((i + 0.5) / len(row), -float(y)) for y, row in enumerate(rows) for i, room in enumerate(row)
    }
    box = {"boxstyle": "round,pad=0.45", "facecolor": "#eef3fb", "edgecolor": "#2b5fa8"}
    labels = {
        room: axes.text(x, y, room, ha="center", va="center", bbox=box, fontsize=10.5, family="monospace")
        for room, (x, y) in places.items()
    }
    figure.canvas.draw()  # boxes get their size, so that arrows can end at their edges
    for room, other in arrows:
        ends = {"patchA": labels[room].get_bbox_patch(), "patchB": labels[other].get_bbox_patch()}
        style = {"arrowstyle": "-|>", "color": "#8a94a6", "shrinkA": 0, "shrinkB": 1, "lw": 1.1}
        axes.annotate("", xy=places[other], xytext=places[room], arrowprops={**style, **ends}, zorder=1)
    axes.set_xlim(0, 1)
    axes.set_ylim(-len(rows) + 0.4, 0.6)
    axes.axis("off")
    figure.savefig(path, dpi=150, bbox_inches="tight")


def main() -> int:
    """Write the picture and the table."""
    rows = layers()
    found = imports(rows)
    PAGE.write_text(page_with(PAGE.read_text(), table(found, rows)))
    draw(rows, reduced(found), ROOT / "docs" / "figures" / "rooms.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
