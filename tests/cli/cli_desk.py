"""What lies on the desk of these tests: sites and their sizes, with and without
groups.
"""

SIZES = {"A": 40, "B": 60, "C": 50}

GROUP_SIZES = {
    "old": {"A": 40, "B": 70, "C": 33},
    "young": {"A": 90, "B": 60, "C": 0},
    "child": {"A": 25, "B": 25, "C": 25},
}
SPREAD = {"old": 1.0, "young": 5.0, "child": 0.1}
"""How much the scores of each group vary."""
