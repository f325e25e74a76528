"""Durable record of a site's masked answers: which sums it takes part in, over which
sites and which cases.

Three rules, each of which has an attack behind it:

1. *One answer for each question, whatever the data.* Two answers under the same masks
   would reveal their difference. The recorded answer is given again, byte for byte.
2. *Exact sums over the same sites, of one data set, are of the same cases.* Where the
   cases of one site changed and those of the others did not, the difference of two sums
   is about this site alone.
3. *Exact sums over other sites, or of another data set, have no case in common.* The
   difference of two sums over different sites is a sum over the sites in which they
   differ.

So any two sums are of the same cases at every honest site, or of other cases at every
honest site, and no combination of them is about one site. What is one data set is
agreed by its name in the sites' policies, which is bound to the masks: sites that name
different ones have no sum.

Whether two answers are about the same cases cannot be seen from their scores: a model
that was perturbed by 1e-12 changes all of them. Equal scores under the same model and
score are the same cases. Otherwise the site has to say so: by identifiers of its cases,
of which keyed hashes are kept, or, that they are other cases, by another name of the
data set.

The record is a ledger's file: a chain of sealed entries, with the last seal in a second
file beside it, so that an older copy is refused. It must be the only one of a site.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fedconformal.documents import SigningKey, label_text
from fedconformal.documents._signing import SignedDocument
from fedconformal.privacy import Ledger, LedgerError
from fedconformal.privacy._ledger_file import LedgerFile, seal_path
from fedconformal.protocol._policy import PolicyError, SitePolicy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_TIMEOUT = 60.0
_ENTRY, _UNDECLARED = "sum", "undeclared"

Answer = TypeVar("Answer", bound=SignedDocument)


@dataclass(frozen=True)
class SumQuestion:
    """Question to a site whose answer is added up with those of others, and the cases
    that answer it.

    Attributes
    ----------
    salt : str
        Digest under which masks are made: the same at all sites that were asked, and
        sent, the same.
    site, key : str and SigningKey
        The site's name and key.
    sites : tuple of str
        Public keys of all sites in the sum, in order.
    is_exact : bool
        False if there is noise in the sum, which then reveals no more with others than
        its epsilon allows.
    context : str
        Model and score: under the same ones the same cases have the same scores.
    dataset : str or None
        What the site's policy calls the cases.
    cases : mapping
        By group of cases, a row of numbers for each.
    identifiers : mapping or None
        By group of cases, what tells each case from all others.
    """

    salt: str
    site: str
    key: SigningKey
    sites: tuple[str, ...]
    is_exact: bool
    context: str
    dataset: str | None
    cases: Mapping[str | None, NDArray[Any]]
    identifiers: Mapping[str | None, Sequence[str]] | None

    def footprint(self, secret: str) -> _Footprint:
        """Return what later sums are compared with, in which no case can be found
        without the secret.
        """
        groups = list(self.cases)
        hashes = None
        if self.identifiers is not None:
            hashes = {
                group: _hash_all(self.identifiers[group], secret) for group in groups
            }
        return _Footprint(
            sites=self.sites,
            context=self.context,
            dataset=self.dataset,
            groups=[group or "" for group in groups],
            scores=_fingerprint(
                np.concatenate([_flat_rows(rows) for rows in self.cases.values()]),
                secret,
            ),
            scores_by_group=[
                _fingerprint(_flat_rows(rows), secret) for rows in self.cases.values()
            ],
            identifiers=None if hashes is None else [hashes[group] for group in groups],
        )


def read_identifiers(identifiers: ArrayLike, n_cases: int) -> NDArray[np.object_]:
    """Return the identifier of each case as text.

    Parameters
    ----------
    identifiers : array-like
        Text or whole numbers, one for each case, each different from all others.
    n_cases : int
        Number of cases.

    Returns
    -------
    array of str

    Raises
    ------
    TypeError, ValueError
        If there is not one for each case, or one is empty or occurs twice.

    Examples
    --------
    >>> read_identifiers([17, "b"], 2).tolist()
    ['17', 'b']
    """
    values: list[Any] = np.asarray(identifiers, dtype=object).tolist()
    if len(values) != n_cases:
        raise ValueError(
            f"identifiers must be one for each of the {n_cases} cases, got"
            f" {len(values)}"
        )
    texts = [label_text(value).strip() for value in values]
    if "" in texts:
        raise ValueError(
            f"identifiers must not be empty, got an empty one in row {texts.index('')}"
        )
    if len(set(texts)) < len(texts):
        first = next(row for row, text in enumerate(texts) if text in texts[:row])
        raise ValueError(
            f"identifiers must tell all cases apart, got the one of row {first} twice"
        )
    return np.array(texts, dtype=object)


@dataclass(frozen=True)
class _Footprint:
    """Sites and cases of an exact sum, as they are kept; one entry a group in each
    list.
    """

    sites: tuple[str, ...]
    context: str
    dataset: str | None
    groups: list[str]
    scores: str
    scores_by_group: list[str]
    identifiers: list[list[str]] | None

    @classmethod
    def from_json(cls, text: str) -> _Footprint:
        """Read what was kept."""
        fields = json.loads(text)
        return cls(**{**fields, "sites": tuple(fields["sites"])})

    @property
    def all_identifiers(self) -> list[str] | None:
        """Hashes of all cases, in order."""
        if self.identifiers is None:
            return None
        return sorted(each for group in self.identifiers for each in group)


def _find_conflict(earlier: _Footprint, now: _Footprint) -> str | None:
    """Return why two exact sums together would reveal a site, or cases of it; None if
    they do not.
    """
    if earlier.sites == now.sites and earlier.dataset == now.dataset:
        return _find_change(earlier, now)
    before, after = earlier.all_identifiers, now.all_identifiers
    if before is not None and after is not None:
        is_apart = set(before).isdisjoint(after)
    else:
        is_apart = earlier.dataset != now.dataset
    if is_apart:
        return None
    return (
        "an exact sum over other sites, or of another data set, was answered before,"
        " and nothing shows that no case was in it: both could reveal the sites in"
        " which they differ"
    )


def _find_change(earlier: _Footprint, now: _Footprint) -> str | None:
    """Return why two exact sums over the same sites are not known to be of the same
    cases; None if they are.
    """
    has_same_groups = earlier.groups == now.groups
    if earlier.context == now.context:
        is_same = earlier.scores == now.scores
        if has_same_groups:
            is_same = earlier.scores_by_group == now.scores_by_group
    elif earlier.identifiers is None or now.identifiers is None:
        return (
            "an exact sum was answered before under another model or score, and nothing"
            " shows whether these are the same cases: both could reveal how yours"
            " changed"
        )
    elif has_same_groups:
        is_same = earlier.identifiers == now.identifiers
    else:
        is_same = earlier.all_identifiers == now.all_identifiers
    if is_same:
        return None
    return (
        "an exact sum of other cases was answered before, and both would reveal how"
        " yours changed"
    )


_WAY_OUT = (
    "ask for a private plan; for the same cases, give identifiers in all sums; for"
    " other cases, name the data set in the policies of all sites, as in sum_dataset"
    " = {}"
)


class SumRecord:
    """Durable record of masked answers, which must be the only one of a site.

    Parameters
    ----------
    path : Path
        The file, which is made with the first answer.

    Examples
    --------
    >>> import fedconformal as fc
    >>> record = SumRecord.of(fc.SitePolicy(sum_record="sums"), key=None)
    >>> record.path.name
    'sums'
    """

    _of_new_keys: dict[str, tempfile.TemporaryDirectory[str]] = {}  # noqa: RUF012  # as long as the process

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @classmethod
    def of(cls, policy: SitePolicy, key: SigningKey | None) -> SumRecord:
        """Return the record that a policy names, else the one beside the site's key.

        A key that this process has made, and that is in no file, has a record for as
        long as the process.
        """
        if policy.sum_record is not None:
            return cls(policy.sum_record)
        if key is not None and key.path is not None:
            return cls(key.path.with_name(f"{key.path.name}.sums"))
        if key is not None and key.is_new:
            folder = cls._of_new_keys.get(key.public_key)
            if folder is None:
                folder = tempfile.TemporaryDirectory(prefix="fedconformal-")
                cls._of_new_keys[key.public_key] = folder
            return cls(Path(folder.name) / "sums")
        raise ValueError(
            "masked answers need a durable record: name sum_record in the site's"
            " policy, or read the key from its file with SigningKey.read, and the"
            " record is kept beside it"
        )

    def _begin(self, *, write: bool) -> LedgerFile:
        """Open the file and begin a transaction."""
        try:
            if write and not self.path.exists():
                self._make()
            file = LedgerFile(self.path, _TIMEOUT)
            try:
                file.begin(write=write, seen=None)
            except BaseException:
                file.close()
                raise
        except (OSError, LedgerError) as error:
            raise ValueError(
                f"the record of masked answers cannot be used: {error}"
            ) from None
        return file

    def _make(self) -> None:
        """Make the file, unless another process does so meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            Ledger.create(self.path)
        except LedgerError:
            if not self.path.exists():
                raise

    def find(self, question: SumQuestion, kind: type[Answer]) -> Answer | None:
        """Return the recorded answer to a question; None if it can be answered, else
        refuse it.
        """
        if not self.path.exists() and not seal_path(self.path).exists():
            return None
        with closing(self._begin(write=False)) as file:
            return _find(file, question, kind)

    def answer(
        self, question: SumQuestion, kind: type[Answer], make: Callable[[], Answer]
    ) -> Answer:
        """Return the recorded answer, or make and record one before it leaves.

        Parameters
        ----------
        question : SumQuestion
            The question, and the site's cases.
        kind : type
            Kind of the answer.
        make : callable
            Makes the answer.

        Returns
        -------
        Report

        Raises
        ------
        PolicyError
            If an earlier exact sum was over other sites, or of other cases.
        """
        with closing(self._begin(write=True)) as file:
            answer = _find(file, question, kind)
            if answer is None:
                answer = make()
                _append(file, question, answer)
                file.commit()
            return answer


def _append(file: LedgerFile, question: SumQuestion, answer: SignedDocument) -> None:
    """Write an answer to the record, with what later sums are compared with if it is
    exact.
    """
    footprint = None
    if question.is_exact:
        footprint = json.dumps(asdict(question.footprint(file.key)))
    file.append(
        _ENTRY,
        question.dataset or _UNDECLARED,
        plan=f"{question.key.public_key} {question.salt}",
        site=question.site,
        fingerprint=footprint,
        answer=answer.to_json(indent=None),
    )


def _find(file: LedgerFile, question: SumQuestion, kind: type[Answer]) -> Answer | None:
    """Return the recorded answer; without one refuse a question that earlier exact sums
    forbid.
    """
    entries = [entry for entry in file.entries if entry.kind == _ENTRY]
    asked = f"{question.key.public_key} {question.salt}"
    for entry in entries:
        if entry.plan == asked and entry.answer is not None:
            return kind.from_json(entry.answer)
    if not question.is_exact:
        return None
    now = question.footprint(file.key)
    for entry in entries:
        if entry.fingerprint is None:
            continue
        reason = _find_conflict(_Footprint.from_json(entry.fingerprint), now)
        if reason is not None:
            example = json.dumps(f"{question.dataset or 'cohort'} 2")
            raise PolicyError(
                f"{reason}. Record: {file.path}. Instead {_WAY_OUT.format(example)}"
            )
    return None


def _flat_rows(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return one row of numbers for each case; -0.0 becomes 0.0."""
    flat = rows.reshape(len(rows), -1).astype("<f8") + 0.0
    return np.ascontiguousarray(flat)


def _fingerprint(rows: NDArray[np.float64], secret: str) -> str:
    """Return a keyed hash of rows of numbers, in any order."""
    keys = rows.view(f"S{8 * rows.shape[1]}") if rows.size else rows
    in_order = rows[np.argsort(keys[:, 0], kind="stable")] if rows.size else rows
    return hmac.new(secret.encode(), in_order.tobytes(), hashlib.sha256).hexdigest()


def _hash_all(identifiers: Sequence[str], secret: str) -> list[str]:
    """Return a keyed hash of each identifier, in order of the hashes."""
    key = secret.encode()
    return sorted(
        hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32]
        for text in identifiers
    )
