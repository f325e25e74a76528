import pytest

from fedconformal.privacy import Ledger


@pytest.fixture
def path(tmp_path):
    """A ledger with a budget of 1 for the data set D."""
    Ledger.create(tmp_path / "ledger.db").set_budget("D", 1)
    return tmp_path / "ledger.db"
