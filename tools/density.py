"""Measure how much a reader meets per statement: ``python tools/density.py``.

With ``--write`` the figures go to ``tests/project/density.json``, where a test compares
them with the source: they may only fall.
"""

import ast
import io
import json
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "fedconformal"
RECORD = ROOT / "tests" / "project" / "density.json"
MOST_TOKENS, MOST_BRANCHES = 400, 20
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
BRANCHES = (
    ast.If,
    ast.For,
    ast.While,
    ast.IfExp,
    ast.ExceptHandler,
    ast.BoolOp,
    ast.comprehension,
    ast.Match,
)
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def is_docstring(node: ast.AST) -> bool:
    """Return whether a node is a constant that stands alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_parallel(node: ast.AST) -> bool:
    """Return whether a node assigns several values to as many targets."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    )


def count_kinds(tree: ast.AST) -> dict[str, int]:
    """Count statements, and what makes them dense."""
    kinds = dict.fromkeys(
        ("statements", "comprehensions", "conditional", "parallel"), 0
    )
    for node in ast.walk(tree):
        kinds["statements"] += isinstance(node, ast.stmt) and not is_docstring(node)
        kinds["comprehensions"] += isinstance(node, COMPREHENSIONS)
        kinds["conditional"] += isinstance(node, ast.IfExp)
        kinds["parallel"] += is_parallel(node)
    return kinds


def long_functions(text: str, tree: ast.AST) -> Iterator[str]:
    """Yield the names of functions with more tokens or branches than most have."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = [token.start[0] for token in tokens if token.type not in LAYOUT]
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        body = [statement for statement in node.body if not is_docstring(statement)]
        if not body:
            continue
        first, last = body[0].lineno, node.end_lineno or 0
        n_tokens = sum(first <= line <= last for line in lines)
        inside = [each for statement in body for each in ast.walk(statement)]
        n_branches = sum(isinstance(each, BRANCHES) for each in inside)
        if n_tokens > MOST_TOKENS or n_branches > MOST_BRANCHES:
            yield node.name


def measure() -> dict[str, object]:
    """Return figures per 1,000 statements, and the functions that are too long."""
    totals = dict.fromkeys(
        ("statements", "comprehensions", "conditional", "parallel"), 0
    )
    too_long = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        tree = ast.parse(text)
        for kind, number in count_kinds(tree).items():
            totals[kind] += number
        place = path.relative_to(SOURCE).as_posix()
        too_long += [f"{place}: {name}" for name in long_functions(text, tree)]
    statements = totals.pop("statements")
    figures = {kind: round(1000 * n / statements, 1) for kind, n in totals.items()}
    return {"per 1,000 statements": figures, "long functions": sorted(too_long)}


if __name__ == "__main__":
    found = json.dumps(measure(), indent=2) + "\n"
    if "--write" in sys.argv:
        RECORD.write_text(found)
    print(found, end="")
