"""The reference of every public name, from the names that each room exports: no list to keep up."""

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

ROOMS = {
    "fedconformal": "What most users need",
    "fedconformal.laws": "Laws of the coverage",
    "fedconformal.planning": "Designs, criteria and promises",
    "fedconformal.scores": "Scores",
    "fedconformal.privacy": "Private reports",
    "fedconformal.documents": "Documents",
    "fedconformal.protocol": "The verbs, and a site's policy",
    "fedconformal.audit": "The recount",
    "fedconformal.heterogeneity": "When sites differ",
    "fedconformal.estimators": "Estimators",
    "fedconformal.metrics": "Metrics",
    "fedconformal.baselines": "Baselines",
    "fedconformal.plots": "Plots",
    "fedconformal.rounds": "Rounds, whatever the engine",
    "fedconformal.flower": "Flower",
    "fedconformal.nvflare": "NVIDIA FLARE",
    "fedconformal.web": "Planner and certificate",
    "fedconformal.experiments": "The paper's experiments",
}


def write(app: Any, config: Any) -> None:
    """A page for each room, and one that lists them."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    present, listed_at = [room for room in ROOMS if _is_there(room)], {}
    for room in present:
        (folder / f"{room}.rst").write_text(_page(room, listed_at))
    listed = "\n".join(f"   {ROOMS[room]} <{room}>" for room in present)
    (folder / "index.rst").write_text(
        f"API reference\n=============\n\n.. toctree::\n   :maxdepth: 1\n\n{listed}\n"
    )


def _is_there(room: str) -> bool:
    try:
        import_module(room)
    except ImportError:
        return False
    return True


def _page(room: str, listed_at: dict[int, str]) -> str:
    """The page of one room; what another page lists already is only named."""
    module = import_module(room)
    title = f"{ROOMS[room]}: ``{room}``"
    public = [name for name in module.__all__ if not name.startswith("__")]
    made = [n for n in public if inspect.isclass(getattr(module, n)) or inspect.isroutine(getattr(module, n))]
    again = [n for n in made if listed_at.setdefault(id(getattr(module, n)), room) != room]
    names = [name for name in public if name not in again]
    kinds = {
        "Classes": [n for n in names if inspect.isclass(getattr(module, n))],
        "Functions": [n for n in names if inspect.isroutine(getattr(module, n))],
    }
    parts = [title, "=" * len(title), "", f".. currentmodule:: {room}", "", inspect.getdoc(module) or "", ""]
    for kind, found in kinds.items():
        if found:
            parts += [kind, "-" * len(kind), "", ".. autosummary::", "   :toctree: generated", ""]
            parts += [f"   {name}" for name in sorted(found)] + [""]
    others = sorted(set(names) - {n for found in kinds.values() for n in found})
    values = [n for n in others if not inspect.ismodule(getattr(module, n))]
    if values:
        parts += ["Also: " + ", ".join(f"``{name}``" for name in values) + ".", ""]
    if again:
        at = (f"``{name}`` (:doc:`{listed_at[id(getattr(module, name))]}`)" for name in again)
        parts += ["Listed elsewhere: " + ", ".join(at) + ".", ""]
    return "\n".join(parts)


def setup(app: Any) -> dict[str, bool]:
    """Register the step, before pages are looked for."""
    app.connect("config-inited", write)
    return {"parallel_read_safe": True}
