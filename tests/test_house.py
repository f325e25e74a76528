"""Rules of the whole house, read off its source: who may know what, and where a choice is made."""

import ast
from functools import cache
from pathlib import Path

import pytest

import fedconformal
from fedconformal import _extras
from fedconformal.planning import CRITERIA, PROMISES
from fedconformal.privacy import ANALYSES, MECHANISMS
from fedconformal.scores import SCORES

HOUSE = Path(fedconformal.__file__).parent
MODULES = sorted(HOUSE.glob("**/*.py"))
CORE = ("laws", "scores", "privacy", "planning", "documents", "protocol", "audit")


def named(path):
    """A file, as it is called in messages and lists here."""
    return path.relative_to(HOUSE).as_posix()


def room_of(path):
    """The package, or the module, right below the house that a file belongs to."""
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


@cache
def parsed(path):
    return tuple(ast.walk(ast.parse(path.read_text())))


ROOMS = {room_of(path) for path in MODULES}
each_module = pytest.mark.parametrize("path", MODULES, ids=named)


# -- no private name is imported across rooms --------------------------------------------------------------


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def imports(nodes):
    """Every full name that is imported, and the name under which it is used."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((f"{module}.{alias.name}", alias.asname or alias.name) for alias in node.names)


def strangers(nodes, room):
    """Private names of other rooms that are imported or reached into, and relative imports.

    Modules right below the house, such as ``_text``, are there for all rooms; what is private in them is not.
    """
    known = {}
    for full, used in imports(nodes):
        top, *inside = full.split(".")
        if top not in ("fedconformal", ""):
            continue
        if top == "" or (inside[0] != room and any(map(is_private, inside[1:]))):
            yield full
        if top and inside[0] in ROOMS - {room}:
            known[used] = full
    for node in nodes:
        reaches = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if reaches and is_private(node.attr) and node.value.id in known:
            yield f"{known[node.value.id]}.{node.attr}"


@each_module
def test_no_private_name_of_another_room_is_used(path):
    assert sorted(strangers(parsed(path), room_of(path))) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from fedconformal.laws._votes import Votes", ["fedconformal.laws._votes.Votes"]),
        ("from fedconformal.laws import _votes", ["fedconformal.laws._votes"]),
        ("import fedconformal.laws._votes", ["fedconformal.laws._votes"]),
        ("from fedconformal import laws\nlaws._votes", ["fedconformal.laws._votes"]),
        ("from fedconformal._text import _percent", ["fedconformal._text._percent"]),
        ("from ._votes import Votes", ["._votes.Votes"]),
        ("from fedconformal import _text\nfrom fedconformal.laws import Votes\n_text.count", []),
        ("from fedconformal.planning._search import search", []),
    ],
)
def test_the_search_for_private_names_finds_them(source, found):
    assert list(strangers(tuple(ast.walk(ast.parse(source))), "planning")) == found


# -- the only array aliases --------------------------------------------------------------------------------

ALIASES = {"Floats", "Ints", "Bools"}
ALIASED = {"NDArray[np.float64]", "NDArray[np.int64]", "NDArray[np.bool_]"}


@each_module
def test_array_aliases_are_defined_in_one_place(path):
    targets = []
    for node in parsed(path):
        if isinstance(node, ast.Assign):
            whole = ast.unparse(node.value) in ALIASED
            targets += [ast.unparse(t) for t in node.targets if whole or ast.unparse(t) in ALIASES]
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target) in ALIASES:
            targets.append(ast.unparse(node.target))
    assert set(targets) == (ALIASES if named(path) == "_typing.py" else set())


# -- behaviour sits in the class of a choice ---------------------------------------------------------------

CHOICES = {name for registry in (CRITERIA, PROMISES, MECHANISMS, ANALYSES, SCORES) for name in registry}

OWN_FILES = (
    "planning/criteria/",
    "planning/promises/",
    "privacy/mechanisms/",
    "privacy/analyses/",
    "scores/",
)
"""Where each choice has its class, and may know itself by name."""

TABLES = tuple(
    f"audit/_{name}.py" for name in ("advice", "assumptions", "coverage", "election", "private", "promises")
)
"""The auditor's own tables by name: it must not ask the classes that it checks."""

ALLOWED = {
    "heterogeneity/_distributions.py": {"exponential"},  # the distribution
}
"""Words that mean something else where they are."""


def constants(node):
    """Text that an expression compares with: a constant, or constants in a literal collection."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for element in node.elts:
            yield from constants(element)


def dispatches(path):
    """Every text that is compared with, is a key of a literal dictionary, or a pattern; with its line."""
    for node in parsed(path):
        if isinstance(node, ast.Compare):
            if all(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops):
                for side in (node.left, *node.comparators):
                    yield from ((text, node.lineno) for text in constants(side))
        elif isinstance(node, ast.Dict):
            for key in node.keys:
                yield from ((text, node.lineno) for text in constants(key))
        elif isinstance(node, ast.MatchValue):
            yield from ((text, node.lineno) for text in constants(node.value))


@each_module
def test_nothing_asks_for_the_name_of_a_choice(path):
    if named(path).startswith((*OWN_FILES, *TABLES)):
        return
    found = {(text, line) for text, line in dispatches(path) if text in CHOICES}
    allowed = ALLOWED.get(named(path), set())
    assert {(text, line) for text, line in found if text not in allowed} == set()


def test_what_is_allowed_is_still_there():
    for name, words in ALLOWED.items():
        assert words <= {text for text, _ in dispatches(HOUSE / name)}
    for name in TABLES:
        assert {text for text, _ in dispatches(HOUSE / name)} & CHOICES


def test_the_search_for_names_finds_them(tmp_path):
    """A test that could not fail would be worth nothing."""
    source = tmp_path / "sample.py"
    source.write_text(
        'if kind == "lac": pass\n'
        'if kind in ("stable", "x"): pass\n'
        'table = {"each-site": 1}\n'
        'match kind:\n    case "exponential": pass\n'
        'if "tight" != kind: pass\n'
    )
    assert {text for text, _ in dispatches(source)} & CHOICES == {
        "lac",
        "stable",
        "each-site",
        "exponential",
        "tight",
    }


# -- extras -----------------------------------------------------------------------------------


def test_what_is_not_installed_names_the_extra():
    with pytest.raises(_extras.MissingExtraError, match=r"pip install 'fedconformal\[plots\]'"):
        _extras.need("no_such_package.inside", extra="plots")
