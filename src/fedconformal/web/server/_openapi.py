"""The published description of the API, made from the models that check every request."""

from functools import cache
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from fedconformal._version import __version__
from fedconformal.documents import Document, Plan
from fedconformal.documents import schema as document_schema
from fedconformal.web.planner import (
    PlanAnswer,
    PlanQuestion,
    PlanRequest,
    PromisesAnswer,
    WishAnswer,
    WishRequest,
)

_REFUSALS = {
    "400": "The request was cut short.",
    "403": "The request came from a page of another origin.",
    "408": "The body did not arrive in time.",
    "415": "The body is not JSON.",
    "421": "The Host header names another server.",
    "422": "The question makes no sense, or is larger than this server answers; the reason is one sentence.",
}

_OPERATIONS: tuple[tuple[str, str, type[BaseModel], type[BaseModel], str], ...] = (
    ("/api/plan", "plan", PlanRequest, PlanAnswer, "A plan in words, in numbers and as a picture"),
    ("/api/promises", "promises", PlanQuestion, PromisesAnswer, "All promises side by side for these sites"),
    ("/api/wish", "wish", WishRequest, WishAnswer, "Another choice, cases or privacy loss that meet a wish"),
    ("/api/document", "document", PlanQuestion, Plan, "The plan as the document that is sent to the sites"),
)

_Mode = Literal["validation", "serialization"]


def _mode(answer: type[BaseModel]) -> _Mode:
    """How an answer is described: a document as it is read, for it leaves out what has its default."""
    return "validation" if issubclass(answer, Document) else "serialization"


@cache
def openapi() -> dict[str, Any]:
    """Return the description of the planner's API.

    Returns
    -------
    dict
        OpenAPI 3.1.

    Examples
    --------
    >>> from fedconformal.web import openapi
    >>> sorted(openapi()["paths"])
    ['/api/document', '/api/plan', '/api/promises', '/api/wish']
    """
    asked: list[tuple[type[BaseModel], _Mode]] = [(ask, "validation") for _, _, ask, _, _ in _OPERATIONS]
    answered = [(answer, _mode(answer)) for *_, answer, _ in _OPERATIONS]
    keys, definitions = models_json_schema([*asked, *answered], ref_template="#/components/schemas/{model}")
    schemas: dict[str, Any] = definitions["$defs"]
    written = document_schema("plan")
    schemas["Plan"]["properties"]["digest"] = written["properties"]["digest"]
    schemas["Plan"]["required"] = written["required"]
    schemas["Refusal"] = {
        "type": "object",
        "properties": {"error": {"type": "string"}},
        "required": ["error"],
        "additionalProperties": False,
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fedconformal planner",
            "version": __version__,
            "description": "Plans for federated conformal prediction, computed on this machine.",
        },
        "paths": {
            path: {"post": _operation(name, keys[ask, "validation"], keys[answer, _mode(answer)], summary)}
            for path, name, ask, answer, summary in _OPERATIONS
        },
        "components": {"schemas": schemas},
    }


def _operation(name: str, ask: dict[str, Any], answer: dict[str, Any], summary: str) -> dict[str, Any]:
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    return {
        "operationId": name,
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": ask}}},
        "responses": {
            "200": {"description": summary, "content": {"application/json": {"schema": answer}}},
            **{status: {"description": why, "content": refusal} for status, why in _REFUSALS.items()},
        },
    }
