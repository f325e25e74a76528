"""Which answers came from whom: a question is answered once, and a name by the node that bears it."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from fedconformal._text import one_line
from fedconformal.documents import Check, DocumentError, Refusal, Report
from fedconformal.rounds._failures import Failure

Node = TypeVar("Node", bound=Hashable)
Answer = TypeVar("Answer", Report, Check)


class Answers(ABC, Generic[Node, Answer]):
    """The answers of one round, as they come in.

    Parameters
    ----------
    nodes : mapping
        The nodes of the round, each with the name that the engine knows it by; empty where it knows none.
    engine : str
        What the engine is called.
    log : logging.Logger
        The server's log.
    """

    what: str
    """What an answer is called."""

    def __init__(self, nodes: Mapping[Node, str], *, engine: str, log: logging.Logger) -> None:
        self.nodes, self.engine, self._log = nodes, engine, log
        self._open = dict.fromkeys(nodes)

    @property
    def to_ask(self) -> tuple[Node, ...]:
        """The nodes that have not answered yet."""
        return tuple(self._open)

    def receive(self, node: Node | None, packed: object) -> None:
        """Take in what a node sent, once.

        Parameters
        ----------
        node : hashable or None
            The node that was asked; None, or one that has answered, if nobody knows which question this
            answers.
        packed : object
            What came over the wire.
        """
        if not self._close(node):
            return
        assert node is not None
        try:
            answer = self._attributed(node, self._read(packed))
        except ValueError as error:
            self._refuse(node, Refusal(source=self.who(node), reason=str(error)))
        else:
            self._accept(node, answer)

    def fail(self, node: Node | None, code: int | str) -> None:
        """Take in that a node sent a code instead of an answer.

        Parameters
        ----------
        node : hashable or None
            As for ``receive``.
        code : int or str
            A `Failure`, or a code of the engine's own.
        """
        if self._close(node):
            assert node is not None
            meaning = Failure.meaning_of(code, self.engine)
            self._log.warning("%s sent no %s: %s", self.who(node), self.what, meaning)

    def who(self, node: Node) -> str:
        """What a node is called in messages.

        Parameters
        ----------
        node : hashable
            A node that was asked.

        Returns
        -------
        str
            The name that the engine knows it by, else its number.
        """
        return one_line(self.nodes[node] or f"node {node}", 200)

    @abstractmethod
    def _read(self, packed: object) -> Answer:
        """The answer in what came over the wire."""

    @abstractmethod
    def _accept(self, node: Node, answer: Answer) -> None:
        """Take an answer whose sender may speak for its site."""

    @abstractmethod
    def _refuse(self, node: Node | None, refusal: Refusal) -> None:
        """Note why an answer is not looked at."""

    def _close(self, node: Node | None) -> bool:
        """Whether the question to a node was open; it is not any more."""
        if node is None or node not in self._open:
            stray = Refusal(source="unknown node", reason="answers no open question of this round")
            self._refuse(None, stray)
            return False
        del self._open[node]
        return True

    def _attributed(self, node: Node, answer: Answer) -> Answer:
        """The answer of a node. One that is registered under a name speaks for this site alone.

        Where some nodes have registered names, one without could only be posing as one of them.
        """
        registered = self.nodes[node]
        if not registered and any(self.nodes.values()):
            raise DocumentError(
                f"reports as {answer.site!r}, but is not registered under a name as others are"
            )
        if registered not in {"", answer.site}:
            raise DocumentError(f"registered as {registered!r}, but reports as {answer.site!r}")
        return answer

    def _tell(self, timeout: float, refused: Iterable[Refusal]) -> None:
        """Write to the log who did not answer, and what was refused."""
        for node in self._open:
            self._log.warning("%s did not answer within %g s", self.who(node), timeout)
        for refusal in refused:
            self._log.warning("refused: %s: %s", refusal.source, refusal.reason)
