"""Reference of every public name, from the names that each package exports."""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

PACKAGES = {
    "fedconformal": "Main functions and classes",
    "fedconformal.laws": "Distributions of the coverage",
    "fedconformal.planning": "Search, criteria and promises",
    "fedconformal.scores": "Scores",
    "fedconformal.messages": "Messages of a site",
    "fedconformal.privacy": "Bins, noise and the ledger",
    "fedconformal.audit": "Independent verification",
    "fedconformal.monitoring": "Checks of new cases, and sites that differ",
    "fedconformal.metrics": "Metrics",
    "fedconformal.baselines": "Baselines",
    "fedconformal.plots": "Plots",
    "fedconformal.flower": "Flower",
    "fedconformal.nvflare": "NVIDIA FLARE",
    "fedconformal.pages": "Planner and certificate",
}
PLAIN = (bool, int, float, str)
"""Values that can be shown as they are."""


def write(app: Any, config: Any) -> None:
    """Write a page for each package and one that lists them, where they changed."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def pages() -> dict[str, str]:
    """Return the text of every page by its name."""
    listed_at: dict[int, str] = {}
    return {"index": _index(), **{package: _page(package, listed_at) for package in PACKAGES}}


def _index() -> str:
    """Return the page of all packages, with the names that each exports."""
    parts = ["API reference", "=============", "", "Every name by its letter: :ref:`genindex`.", ""]
    for package, title in PACKAGES.items():
        names = (name for name in import_module(package).__all__ if not name.startswith("__"))
        said = ", ".join(f"``{name}``" for name in names)
        parts += [f":doc:`{title} <{package}>`, ``{package}``", f"   {said}", ""]
    parts += [".. toctree::", "   :hidden:", ""]
    parts += [f"   {title} <{package}>" for package, title in PACKAGES.items()]
    return "\n".join(parts) + "\n"


def _page(package: str, listed_at: dict[int, str]) -> str:
    """Return the page of one package; what another page lists already is only named."""
    module = import_module(package)
    title = f"{PACKAGES[package]}: ``{package}``"
    public = {name: getattr(module, name) for name in module.__all__ if not name.startswith("__")}
    at = {
        name: listed_at.setdefault(id(value), package) for name, value in public.items() if _has_page(value)
    }
    again = {name: where for name, where in at.items() if where != package}
    own = {name: value for name, value in public.items() if name not in again}
    parts = [
        title,
        "=" * len(title),
        "",
        f".. currentmodule:: {package}",
        "",
        inspect.getdoc(module) or "",
        "",
    ]
    parts += _listed("Classes", [name for name, value in own.items() if inspect.isclass(value)])
    parts += _listed("Functions", [name for name, value in own.items() if inspect.isroutine(value)])
    parts += _values(module, {name: value for name, value in own.items() if not _has_page(value)})
    parts += _modules(package, own)
    if again:
        names = (f"``{name}`` (:doc:`{where}`)" for name, where in again.items())
        parts += ["Listed elsewhere: " + ", ".join(names) + ".", ""]
    return "\n".join(parts)


def _has_page(value: object) -> bool:
    """Return whether something gets a page of its own."""
    return inspect.isclass(value) or inspect.isroutine(value)


def _listed(title: str, names: list[str]) -> Iterator[str]:
    """Yield a table of names, each with a page of its own that has the whole signature."""
    if names:
        yield from (
            title,
            "-" * len(title),
            "",
            ".. autosummary::",
            "   :toctree: generated",
            "   :nosignatures:",
            "",
        )
        yield from (f"   {name}" for name in sorted(names))
        yield ""


def _modules(package: str, values: dict[str, object]) -> Iterator[str]:
    """Yield public modules that have no page, with their purpose."""
    for name, value in sorted(values.items()):
        if inspect.ismodule(value) and f"{package}.{name}" not in PACKAGES:
            first, _, _ = (inspect.getdoc(value) or "").partition("\n")
            yield from (f"Also the module ``{package}.{name}``: {first}", "")


def _values(module: Any, values: dict[str, object]) -> Iterator[str]:
    """Yield registries, limits and annotations, with the text below them in the source."""
    shown = {name: value for name, value in sorted(values.items()) if not inspect.ismodule(value)}
    if shown:
        yield from ("Values", "------", "")
        said = _written_below(Path(inspect.getfile(module)))
    for name, value in shown.items():
        yield f".. py:data:: {name}"
        if isinstance(value, PLAIN):
            yield f"   :value: {value!r}"
        yield from ("", f"   {said.get(name, '')}", "")


def _written_below(path: Path) -> dict[str, str]:
    """Return the strings right below assignments in a package, by name and by alias."""
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    found: dict[str, str] = {}
    for file in files:
        body = ast.parse(file.read_text()).body
        for statement, following in pairwise(body):
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            if is_text and isinstance(statement, ast.Assign | ast.AnnAssign):
                text = " ".join(str(following.value.value).split())
                found |= dict.fromkeys(_targets(statement), text)
    imports = (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom))
    renamed = {alias.asname: alias.name for node in imports for alias in node.names if alias.asname}
    return found | {new: found[old] for new, old in renamed.items() if old in found}


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[str]:
    """Return the names that an assignment gives."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


def setup(app: Any) -> dict[str, bool]:
    """Register the step, before pages are looked for."""
    app.connect("config-inited", write)
    return {"parallel_read_safe": True}
