"""Reference of every public name, from the names that each package exports."""

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGES = {
    "fedconformal": "Main functions and classes",
    "fedconformal.scores": "Scores",
    "fedconformal.metrics": "Metrics",
    "fedconformal.baselines": "Baselines",
    "fedconformal.plots": "Plots",
    "fedconformal.laws": "Bounds of the coverage",
    "fedconformal.privacy": "Differential privacy",
    "fedconformal.monitoring": "Checks of new cases, and sites that differ",
    "fedconformal.audit": "Independent verification",
    "fedconformal.pages": "Certificate and planner",
    "fedconformal.flower": "Flower",
    "fedconformal.nvflare": "NVIDIA FLARE",
}


def public_names(package: str) -> dict[str, Any]:
    """Return the classes and functions that a package exports, by name; modules have
    pages of their own.
    """
    module = import_module(package)
    values = {
        name: getattr(module, name)
        for name in module.__all__
        if not name.startswith("__")
    }
    return {
        name: value
        for name, value in sorted(values.items())
        if not inspect.ismodule(value)
    }


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
    return {
        "index": _index(),
        **{package: _page(package, listed_at) for package in PACKAGES},
    }


def _index() -> str:
    """Return the page of all packages, with the names that each exports."""
    parts = [
        "API reference",
        "=============",
        "",
        "Every name by its letter: :ref:`genindex`.",
        "",
    ]
    for package, title in PACKAGES.items():
        listed = ", ".join(f"``{name}``" for name in public_names(package))
        parts += [f":doc:`{title} <{package}>`, ``{package}``", f"   {listed}", ""]
    parts += [".. toctree::", "   :hidden:", ""]
    parts += [f"   {title} <{package}>" for package, title in PACKAGES.items()]
    return "\n".join(parts) + "\n"


def _page(package: str, listed_at: dict[int, str]) -> str:
    """Return the page of one package; what another page lists already is only named."""
    title = f"{PACKAGES[package]}: ``{package}``"
    text = inspect.getdoc(import_module(package)) or ""
    parts = [title, "=" * len(title), "", f".. currentmodule:: {package}", "", text, ""]
    public = public_names(package)
    pages_of = {
        name: listed_at.setdefault(id(value), package) for name, value in public.items()
    }
    own = [name for name, page in pages_of.items() if page == package]
    for heading, belongs in (
        ("Classes", inspect.isclass),
        ("Functions", inspect.isroutine),
    ):
        if names := [f"   {name}" for name in own if belongs(public[name])]:
            table = [
                ".. autosummary::",
                "   :toctree: generated",
                "   :nosignatures:",
                "",
            ]
            parts += [heading, "-" * len(heading), "", *table, *names, ""]
    if again := [
        f"``{name}`` (:doc:`{page}`)"
        for name, page in pages_of.items()
        if page != package
    ]:
        parts += [f"Listed elsewhere: {', '.join(again)}.", ""]
    return "\n".join(parts)


def setup(app: Any) -> dict[str, bool]:
    """Register the step, before pages are looked for."""
    app.connect("config-inited", write)
    return {"parallel_read_safe": True}
