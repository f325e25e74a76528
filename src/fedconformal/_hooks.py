"""Functions of higher packages that documents offer as methods, loaded when they are first called."""

from importlib import import_module
from typing import Any

_PLACES = {
    "law": "messages",
    "guarantee": "messages",
    "local_ranks": "messages",
    "votes": "messages",
    "describe_problems": "protocol",
    "describe_notes": "protocol",
    "predict_interval": "protocol",
    "predict_set": "protocol",
    "simulate": "protocol",
    "notebook_view": "pages",
}


def call(name: str, *arguments: Any, **options: Any) -> Any:
    """Call the function of a higher package by its name."""
    return getattr(import_module(f"fedconformal.{_PLACES[name]}"), name)(*arguments, **options)
