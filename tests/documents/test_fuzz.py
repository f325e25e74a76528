"""Mutated documents are read or refused, and nothing else."""

import pytest

from documents.fuzz_documents import READERS, fuzz


@pytest.mark.nightly
def test_mutated_documents_are_refused_or_equal_to_themselves():
    """A small share of ``make fuzz``."""
    outcomes = fuzz(5000, seed=7)
    assert outcomes.total() == len(READERS) * 5000
    assert outcomes["read"] > 0
