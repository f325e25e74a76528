"""Documents for tests, and ways to change them."""

import hashlib
import json
from functools import cache

import fedconformal as fc
from fedconformal.documents import RanksPayload, ReportPart, Sent


@cache
def plan():
    return fc.plan(n_points={"A": 30, "B": 30, "C": 50}, confidence_level=[0.8, 0.9])


def report(value=1.5, *, ranks=(25,), n=30, **changes):
    payload = RanksPayload(levels=(Sent(ranks=ranks, values=(value,) * len(ranks)),))
    parts = (ReportPart(n=n, payload=payload),)
    return fc.Report(**{"plan": plan().digest, "site": "A", "parts": parts, **changes})


def edited(document, *path, value):
    """The text of a document in which what lies at the path has another value; its
    digest is as it was.
    """
    content = json.loads(document.to_json())
    put(content, path, value)
    return json.dumps(content)


def forged(document, changes):
    """The text of a document with other values at some paths, None for nothing, and the
    digest that fits.
    """
    content = json.loads(document.to_json())
    for path, value in changes.items():
        put(content, path.split("."), value)
    return json.dumps(with_digest(content))


def put(content, path, value):
    *way, last = [
        int(step) if isinstance(step, str) and step.isdigit() else step for step in path
    ]
    for step in way:
        content = content[step]
    if value is None and isinstance(content, dict):
        content.pop(last, None)
    else:
        content[last] = value


def with_digest(content):
    """With the digest that the changed content has, so that it is judged by its content
    alone.
    """
    fields = {key: value for key, value in content.items() if key != "digest"}
    try:
        canonical = json.dumps(
            fields,
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
            allow_nan=False,
        )
        return {
            **fields,
            "digest": "sha256:" + hashlib.sha256(canonical.encode()).hexdigest(),
        }
    except ValueError:
        return content


def changed(document, **changes):
    """A document or a part with other fields, checked again."""
    fields = {name: getattr(document, name) for name in type(document).model_fields}
    made = type(document)(**{**fields, **changes})
    if isinstance(made, fc.documents.Document):
        made.check()
    return made
