"""A map whose every look-up is checked against one hash: what a ledger knows, found without reading its log.

It is a tree of hashes over the digits of the keys. A leaf holds a key and its value; a branch holds the hash
of each node below it, one per next digit. Whoever knows the hash of the root can trust what a look-up finds,
*and that nothing is there where it finds nothing*, having read only the nodes on the way: about one per
factor of 16 in the number of keys, as keys are themselves hashes. A node that was changed, removed or put in
another place does not have the hash that the node above it states.

The nodes depend on the keys and values alone, not on the order in which they came. So a second index, filled
from the log in memory, must have the same nodes.
"""

import hashlib
import json
from typing import Any, Protocol


class Texts(Protocol):
    """Texts by their names, such as a dict; an `Index` is one, and keeps its nodes in another."""

    def get(self, name: str, /) -> str | None:
        """The text of this name, or None."""

    def __setitem__(self, name: str, text: str, /) -> None:
        """Write a text."""


class BrokenIndexError(Exception):
    """A node is not the one that the node above it, or whoever knows the root, has stated."""


class Index:
    """The map, over nodes that need not be trusted.

    Parameters
    ----------
    nodes : Texts
        The nodes, by the digits that lead to them.
    root : str
        The hash of the first node; "" if there is none yet.
    """

    def __init__(self, nodes: Texts, root: str = "") -> None:
        self._nodes = nodes
        self.root = root

    def get(self, key: str) -> str | None:
        """The value of a key of hexadecimal digits; None only if there is none."""
        path, expected = "", self.root
        while expected:
            node = self._read(path, expected)
            if isinstance(node, list):
                return str(node[1]) if node[0] == key else None
            path = key[: len(path) + 1]
            expected = node.get(path[-1], "")
        return None

    def __setitem__(self, key: str, value: str) -> None:
        """Set the value of a key; all keys must have the same number of digits."""
        path, expected, trail = "", self.root, []
        while expected:
            node = self._read(path, expected)
            if isinstance(node, list):
                if node[0] == key:
                    break
                node = self._below(path, node)
            trail.append((path, node))
            path = key[: len(path) + 1]
            expected = node.get(path[-1], "")
        self.root = self._write(path, [key, value])
        for path, node in reversed(trail):
            node[key[len(path)]] = self.root
            self.root = self._write(path, node)

    def _below(self, path: str, leaf: list[str]) -> dict[str, str]:
        """Move a leaf down by one digit, and give the branch that takes its place."""
        digit = leaf[0][len(path)]
        return {digit: self._write(path + digit, leaf)}

    def _read(self, path: str, expected: str) -> Any:
        text = self._nodes.get(path)
        if not isinstance(text, str) or _digest(text) != expected:
            raise BrokenIndexError
        return json.loads(text)

    def _write(self, path: str, node: object) -> str:
        self._nodes[path] = text = json.dumps(node, sort_keys=True)
        return _digest(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
