"""Documents for tests, and ways to change them."""

import hashlib
import json
from functools import cache

import fedconformal as fc
from fedconformal.documents import ReportPart, Sent


@cache
def plan():
    return fc.plan(n_points={"A": 30, "B": 30, "C": 50}, confidence_level=[0.8, 0.9])


def report(value=1.5, *, ranks=(25,), n=30, **changes):
    part = ReportPart(n=n, levels=(Sent(ranks=ranks, values=(value,)),))
    return fc.Report(**{"plan": plan().digest, "site": "A", "parts": (part,), **changes})


def edited(document, *path, value):
    """The text of a document in which what lies at the path has another value; its digest is as it was."""
    content = json.loads(document.to_json())
    place = content
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(content)


def with_digest(content):
    """With the digest that the changed content has, so that it is judged by its content alone."""
    fields = {key: value for key, value in content.items() if key != "digest"}
    try:
        canonical = json.dumps(
            fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
        return {**fields, "digest": "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()}
    except ValueError:
        return content


def changed(document, **changes):
    """A document or a part with other fields, checked again."""
    fields = {name: getattr(document, name) for name in type(document).model_fields}
    return type(document)(**{**fields, **changes})
