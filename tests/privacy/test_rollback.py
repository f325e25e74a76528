"""An older copy of a ledger that is put back: refused, and what accepting it costs."""

import os
import shutil
import threading
from fractions import Fraction

import pytest

from fedconformal.privacy import BudgetExceededError, Ledger, LedgerError
from fedconformal.privacy._ledger_file import LedgerFile
from privacy.ledgers import (
    DATA,
    ask,
    interrupted,
    kinds,
    linux,
    never,
    quote,
    record,
    seal_of,
)

REFUSED = (
    "put the latest ledger and seal back, or accept that entries are lost:"
    " `fedconformal ledger reseal`"
)


def restore(path, files):
    for file, content in files.items():
        file.write_bytes(content)


def copy_of(*files):
    return {file: file.read_bytes() for file in files}


@pytest.fixture
def rolled_back(path):
    """A ledger whose backup was put back after three more answers, with the seal that
    it had in the end.
    """
    ask(Ledger(path), "kept", sample=lambda: "kept")
    with pytest.raises(KeyboardInterrupt):
        ask(Ledger(path), "charged", sample=interrupted)
    before = copy_of(path)
    for plan in ("charged", "Q", "R"):
        ask(Ledger(path), plan, epsilon=0.1)
    restore(path, before)
    return path


def test_an_older_copy_renews_no_budget(rolled_back):
    before = rolled_back.read_bytes()
    words = (
        r"ledger.db: an older copy: it ends at entry 4, and its seal is of entry 9;"
        rf" {REFUSED}"
    )
    for call in (Ledger, lambda path: Ledger(path).check()):
        with pytest.raises(LedgerError, match=words):
            call(rolled_back)
    assert rolled_back.read_bytes() == before


@pytest.mark.parametrize("lost", ["ledger", "seal"])
def test_half_a_restore_is_refused_whichever_half(path, lost):
    before = copy_of(path if lost == "ledger" else seal_of(path))
    for plan in "PQ":
        ask(Ledger(path), plan)
    restore(path, before)
    with pytest.raises(LedgerError, match=REFUSED):
        Ledger(path)


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"\0" * 84,
        b"9" * 84,
        b"0" * 18 + b" " + b"0" * 64 + b"\n",
        b"\xff" * 2000,
    ],
)
def test_a_seal_that_is_missing_damaged_or_of_another_ledger(path, content):
    if content is None:
        seal_of(path).unlink()
    else:
        seal_of(path).write_bytes(content)
    with pytest.raises(LedgerError, match=REFUSED) as refused:
        Ledger(path)
    assert "\n" not in str(refused.value)


def test_a_seal_that_is_behind_by_one_transaction_is_brought_up_to_date(
    path, monkeypatch
):
    """Nothing is returned, not even an answer that is stored, before the seal knows of
    it.
    """
    ledger = Ledger(path)
    with monkeypatch.context() as patch:
        # Dies after each commit, before the seal is written.
        patch.setattr(
            LedgerFile, "commit", lambda file: (file.run("COMMIT"), interrupted())
        )
        with pytest.raises(KeyboardInterrupt):
            ask(ledger)
    assert seal_of(path).read_bytes().startswith(b"%018d" % 1)
    before = Ledger(path).entries()
    assert seal_of(path).read_bytes().split() == [
        b"%018d" % 2,
        before[-1].seal.encode(),
    ]
    ledger = Ledger(path)
    ask(ledger)
    assert seal_of(path).read_bytes().split() == [
        b"%018d" % 3,
        ledger.entries()[-1].seal.encode(),
    ]
    assert ledger.entries()[: len(before)] == before


def test_an_answer_that_was_shown_cannot_be_rolled_back_and_drawn_again(
    path, monkeypatch
):
    ledger, note = Ledger(path), LedgerFile._note
    with pytest.raises(KeyboardInterrupt):
        ask(ledger, sample=interrupted)
    charged = copy_of(path, seal_of(path))

    def dies(file, number, seal):
        return interrupted() if number == 3 else note(file, number, seal)

    with monkeypatch.context() as patch:
        patch.setattr(LedgerFile, "_note", dies)
        with pytest.raises(KeyboardInterrupt):
            ask(ledger)
    assert Ledger(path).entries()[-1].kind == "answer"
    restore(path, {path: charged[path]})
    with pytest.raises(
        LedgerError,
        match="an older copy: it ends at entry 2, and its seal is of entry 3",
    ):
        ask(Ledger(path))


def test_a_stored_answer_is_given_again_only_once_it_is_sealed(path, monkeypatch):
    note = LedgerFile._note
    ledger, notes = Ledger(path), []

    def dies_at_the_answer(file, number, seal):
        notes.append(number)
        if number == 3:
            raise KeyboardInterrupt
        note(file, number, seal)

    with monkeypatch.context() as patch:
        patch.setattr(LedgerFile, "_note", dies_at_the_answer)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                ask(ledger)
    assert kinds(path) == ["budget", "charge", "answer"]
    assert notes == [1, 2, 2, 3, 3]
    text = ask(ledger, sample=never)
    assert seal_of(path).read_bytes().startswith(b"%018d" % 3)
    assert ask(Ledger(path), sample=never) == text


def test_no_seal_no_answer(path, monkeypatch):
    ledger = Ledger(path)
    seal_of(path).with_name(f"{path.name}.seal.new").mkdir()
    with pytest.raises(
        LedgerError, match=r"ledger.db: its seal cannot be written \(Is a directory\)"
    ):
        ask(ledger, sample=never)
    seal_of(path).with_name(f"{path.name}.seal.new").rmdir()
    ask(ledger)
    assert ledger.spent("D") == Fraction(1, 10)


def test_threads_never_move_the_seal_back(path):
    ledger = Ledger(path, timeout=600)
    ledger.raise_budget("D", 100, reason="room")
    threads = [threading.Thread(target=ask, args=(ledger, plan)) for plan in "PQRSTUVW"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seal_of(path).read_bytes().startswith(b"%018d" % (2 + 2 * 8))
    assert Ledger(path).check() == 18


def test_the_seal_lies_beside_the_file_and_is_its_owners(path, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(path)
    ask(Ledger(link))
    assert os.listdir(tmp_path / "elsewhere") == ["link.db"]
    assert seal_of(path).stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "ledger.db", "ledger.db.seal"]


def test_a_new_ledger_does_not_take_the_place_of_one_that_is_gone(path):
    path.unlink()
    with pytest.raises(
        LedgerError, match=r"ledger.db.seal: the seal of a ledger that is gone"
    ):
        Ledger.create(path)
    assert not path.exists()
    seal_of(path).unlink()
    assert Ledger.create(path).check() == 0


def test_a_new_ledger_has_a_seal_and_needs_it(tmp_path):
    """Only one that was left by a process that was killed while it made it has none."""
    path = tmp_path / "l"
    Ledger.create(path)
    seal_of(path).unlink()
    with pytest.raises(LedgerError, match=r"its seal l.seal is missing"):
        Ledger(path)


class TestReseal:
    """The loss is accepted and recorded, and everything unknown counts as spent."""

    def test_every_budget_counts_as_spent_and_can_be_raised(self, rolled_back):
        ledger = Ledger.reseal(rolled_back, reason="the disk failed")
        assert ledger.remaining("D") == 0
        (entry,) = [entry for entry in ledger.entries() if entry.kind == "lost"]
        assert (entry.dataset, entry.epsilon, entry.reason) == (
            "D",
            "0.8",
            "the disk failed",
        )
        assert ask(ledger, "kept", sample=never) == "kept"
        with pytest.raises(BudgetExceededError, match="spent 1 of its budget 1"):
            ask(ledger, "new", sample=never)
        Ledger(rolled_back).raise_budget("D", 1.2, reason="decided by the board")
        ask(Ledger(rolled_back), "new")
        assert Ledger(rolled_back).remaining("D") == Fraction(1, 10)

    def test_a_charge_whose_answer_may_be_lost_is_not_drawn_on(self, rolled_back):
        ledger = Ledger.reseal(rolled_back, reason="lost")
        with pytest.raises(BudgetExceededError):
            ask(ledger, "charged", sample=never)
        ledger.raise_budget("D", 2, reason="more")
        assert quote(ledger, "charged").cost == Fraction(1, 10)
        ask(ledger, "charged")
        assert ledger.spent("D") == Fraction(11, 10)

    def test_what_may_be_in_the_lost_entries_is_not_begun_again(self, path):
        record(Ledger(path), "before", dataset="exact")
        older = copy_of(path)
        Ledger(path).set_budget("later", 1)
        record(Ledger(path), "after", dataset="exact")
        restore(path, older)
        ledger = Ledger.reseal(path, reason="lost")
        record(ledger, "before", dataset="exact")
        for call in (
            lambda: ledger.set_budget("later", 1),
            lambda: record(ledger, "after", dataset="exact"),
            lambda: record(ledger, "other", dataset="never seen", data="other"),
        ):
            with pytest.raises(
                LedgerError, match="it takes no new data sets and no exact answers"
            ):
                call()
        assert [
            entry.dataset for entry in ledger.entries() if entry.kind == "lost"
        ] == ["D", "exact"]

    def test_only_a_ledger_that_has_lost_something(self, path):
        with pytest.raises(LedgerError, match="its seal is right: no entries are lost"):
            Ledger.reseal(path, reason="just so")
        with pytest.raises(ValueError, match="reason must be one line"):
            Ledger.reseal(path, reason="")
        assert kinds(path) == ["budget"]

    def test_a_crash_on_the_way_leaves_it_refused(self, rolled_back, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(LedgerFile, "_note", lambda *_: interrupted())
            with pytest.raises(KeyboardInterrupt):
                Ledger.reseal(rolled_back, reason="first")
        with pytest.raises(LedgerError, match=REFUSED):
            Ledger(rolled_back)
        assert Ledger.reseal(rolled_back, reason="second").remaining("D") == 0

    def test_an_empty_ledger(self, tmp_path):
        Ledger.create(tmp_path / "l")
        older = copy_of(tmp_path / "l")
        Ledger(tmp_path / "l").set_budget("D", 1)
        restore(tmp_path / "l", older)
        ledger = Ledger.reseal(tmp_path / "l", reason="lost")
        with pytest.raises(LedgerError, match="no new data sets"):
            ledger.set_budget("D", 1)


def test_a_seal_noted_elsewhere_finds_a_restore_of_both_files(path):
    ask(Ledger(path), "P")
    both = copy_of(path, seal_of(path))
    ask(Ledger(path), "Q")
    noted = Ledger(path).seal("D", plan_digest="Q", site="A", data_fingerprint=DATA)
    assert noted.startswith("5:")
    assert Ledger(path).check(noted) == 5
    restore(path, both)
    assert (
        Ledger(path).check(
            Ledger(path).seal("D", plan_digest="P", site="A", data_fingerprint=DATA)
        )
        == 3
    )
    ask(Ledger(path), "R")
    with pytest.raises(
        LedgerError, match=r"does not hold the entry 5:.*: an older copy was put back"
    ):
        Ledger(path).check(noted)


def test_a_copy_takes_its_seal_along(path, tmp_path):
    for file in (path, seal_of(path)):
        shutil.copy(file, tmp_path / file.name.replace("ledger", "moved"))
    assert Ledger(tmp_path / "moved.db").budget("D") == 1


@linux
def test_a_seal_that_is_no_regular_file_is_refused(path):
    seal_of(path).unlink()
    os.mkfifo(seal_of(path))
    with pytest.raises(LedgerError, match="is not a regular file"):
        Ledger(path)


@linux
def test_whoever_shares_the_ledger_shares_its_seal(path):
    path.chmod(0o660)
    with pytest.warns(UserWarning, match="others can"):
        ask(Ledger(path))
    assert seal_of(path).stat().st_mode & 0o777 == 0o660


def test_an_answer_given_again_carries_the_same_seal(path):
    ledger = Ledger(path)
    known = {"plan_digest": "P", "site": "A"}
    record(ledger, data="one")
    first = ledger.seal("D", **known, data_fingerprint="one")
    record(ledger, data="two")
    assert ledger.seal("D", **known, data_fingerprint="one") == first
    assert ledger.seal("D", **known, data_fingerprint="two") != first
