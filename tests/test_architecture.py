"""The page on architecture shows the rooms as they are."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import rooms  # noqa: E402


def test_the_table_of_imports_is_that_of_the_code():
    page = rooms.PAGE.read_text()
    rows = rooms.layers()
    assert rooms.page_with(page, rooms.table(rooms.imports(rows), rows)) == page, "run make architecture"


def test_every_room_is_in_the_contract_and_on_the_page():
    found = {
        path.name.removesuffix(".py")
        for path in (ROOT / "src" / "fedconformal").iterdir()
        if not path.name.startswith("_") and (path / "__init__.py" if path.is_dir() else path).exists()
    } - {"py.typed"}
    assert found == {room for row in rooms.layers() for room in row}


def test_arrows_that_follow_from_others_are_left_out():
    assert sorted(rooms.reduced({"a": {"b", "c"}, "b": {"c"}, "c": set()})) == [("a", "b"), ("b", "c")]
