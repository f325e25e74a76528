"""Reliability harness: kills, power cuts, hostile files and whole simulated
federations, all seeded.

``python -m torture`` runs every section in full, ``python -m torture federations --runs
100`` one of them. A trial that violates its invariant is printed with the command that
runs it again.
"""
