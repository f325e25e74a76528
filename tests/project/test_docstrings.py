"""Docstrings and messages follow the voice of the project; ruff's D400 and D401 check
the mood.
"""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
QUESTION = r"(What|How|Whether|Which|Who|Whose|Where|When|Why)\b"
HOUSE_WORDS = (
    r"\b(silent|bears?|anew|so many|would do|told|lets out|by itself|as far as was"
    r" tried|strange)\b"
)


def test_no_docstring_begins_with_a_question():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node) or ""
                assert not re.match(QUESTION, text), (path, text)


def test_no_house_words():
    for path in SOURCE.rglob("*.py"):
        assert not re.search(HOUSE_WORDS, path.read_text()), path
