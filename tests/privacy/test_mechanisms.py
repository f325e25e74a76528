"""Nothing in a private release can be seeded or simulated."""

import ast
from fractions import Fraction
from pathlib import Path

import pytest

from fedconformal import privacy
from fedconformal.privacy import Balanced, Bins, Privacy, Slopes
from fedconformal.privacy.mechanisms import Exponential, PermuteAndFlip

NINE = Balanced(Fraction(9, 10))


def names_used(tree):
    """Every name and attribute that is read, and every module that is imported whole."""
    nodes = list(ast.walk(tree))
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


class TestSecurity:
    def test_nothing_in_the_release_path_can_be_seeded(self):
        """Mechanisms may speak of a generator where they simulate, in ``noise``, and nowhere else."""
        room = Path(privacy.__file__).parent
        mechanisms = sorted((room / "mechanisms").glob("*.py"))
        assert len(mechanisms) >= 4
        for file in (*mechanisms, *(room / f"_{name}.py" for name in ("aims", "release", "loss", "count"))):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
                kind.body = [part for part in kind.body if getattr(part, "name", "") != "noise"]
            assert not names_used(tree) & {
                "random",
                "seed",
                "default_rng",
                "RandomState",
                "Generator",
                "noise",
            }

    @pytest.mark.parametrize("mechanism", [PermuteAndFlip(), Exponential()], ids=repr)
    def test_a_release_never_asks_for_simulated_noise(self, mechanism, monkeypatch):
        def refuse(*_):
            raise AssertionError("simulated noise in a release")

        monkeypatch.setattr(type(mechanism), "noise", refuse)
        release = Privacy(epsilon=1, bins=Bins([0, 1, 2]), mechanism=mechanism.name).release()
        for aim in (NINE, Slopes(Fraction(9, 10), Fraction(7, 10))):
            assert release.aimed(aim).prepare([3, 2, 4])() in (0, 1, 2)
