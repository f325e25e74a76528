"""The published description of the API, made from the models that check every request."""

from functools import cache
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from fedconformal._version import __version__
from fedconformal.documents import Plan
from fedconformal.documents import schema as document_schema
from fedconformal.planner._answers import PlanAnswer
from fedconformal.planner._questions import PlanQuestion, PlanRequest, WishRequest
from fedconformal.planner._wish import WishAnswer

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
    ("/api/wish", "wish", WishRequest, WishAnswer, "The points or the privacy loss that a wish would take"),
    ("/api/document", "document", PlanQuestion, Plan, "The plan as the document that is sent to the sites"),
)

_Mode = Literal["validation", "serialization"]


@cache
def openapi() -> dict[str, Any]:
    """OpenAPI 3.1 of the planner."""
    asked: list[tuple[type[BaseModel], _Mode]] = [(ask, "validation") for _, _, ask, _, _ in _OPERATIONS]
    told: list[tuple[type[BaseModel], _Mode]] = [(tell, "serialization") for *_, tell, _ in _OPERATIONS]
    keys, definitions = models_json_schema([*asked, *told], ref_template="#/components/schemas/{model}")
    schemas: dict[str, Any] = definitions["$defs"]
    digest = document_schema("plan")["properties"]["digest"]
    plan = schemas["Plan"]
    plan["properties"]["digest"] = digest
    plan["required"] = [*plan.get("required", []), "digest"]
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
            path: {"post": _operation(name, keys[ask, "validation"], keys[tell, "serialization"], summary)}
            for path, name, ask, tell, summary in _OPERATIONS
        },
        "components": {"schemas": schemas},
    }


def _operation(name: str, ask: dict[str, Any], tell: dict[str, Any], summary: str) -> dict[str, Any]:
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    return {
        "operationId": name,
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": ask}}},
        "responses": {
            "200": {"description": summary, "content": {"application/json": {"schema": tell}}},
            **{status: {"description": why, "content": refusal} for status, why in _REFUSALS.items()},
        },
    }
