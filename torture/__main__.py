"""``python -m torture``: run sections of the harness, and print what was tried."""

import argparse
import json
import os
import sys
from pathlib import Path

from torture._run import Result, Section, run_section
from torture.sections import SECTIONS

_BEGIN, _END = "<!-- torture: begin -->", "<!-- torture: end -->"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; exit code 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        help=f"one of {', '.join(SECTIONS)}; all if left out",
    )
    parser.add_argument("--seed", type=int, default=0, help="first seed (default: 0)")
    parser.add_argument(
        "--runs", type=int, help="number of seeds (default: those of the section)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="the number of seeds that make test runs"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count(),
        help="processes (default: one per core)",
    )
    parser.add_argument(
        "--json", type=Path, help="write or update the counts in this file"
    )
    parser.add_argument(
        "--page",
        type=Path,
        help="update the table on this page from the file of --json",
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.sections) - SECTIONS.keys():
        parser.error(
            f"unknown section {min(unknown)!r}; there are {', '.join(SECTIONS)}"
        )
    failed = False
    for section in [SECTIONS[name] for name in options.sections or SECTIONS]:
        runs = options.runs or (section.quick if options.quick else section.runs)
        result = run_section(
            section, range(options.seed, options.seed + runs), jobs=options.jobs
        )
        show(result)
        failed = failed or bool(result.violations)
        if options.json is not None:
            update_counts(options.json, result)
    if options.page is not None:
        update_page(options.page, json.loads(options.json.read_text()))
    return int(failed)


def show(result: Result) -> None:
    """Print one line for a section, and one command for each violation."""
    section, violations = result.section, len(result.violations)
    counts = (
        f"{result.tried:>9,} {section.tried}, {violations} violations,"
        f" {result.seconds:.0f} s"
    )
    print(f"{section.name:<14} {counts}", flush=True)
    for seed, line, trace in result.violations[:5]:
        print(f"  {line}\n    python -m torture {section.name} --seed {seed} --runs 1")
        if violations == 1:
            print(trace, file=sys.stderr)


def update_counts(path: Path, result: Result) -> None:
    """Write the counts of a section into a file that holds those of others."""
    counts = json.loads(path.read_text()) if path.exists() else {}
    counts[result.section.name] = {
        "tried": result.tried,
        "violations": len(result.violations),
    }
    path.write_text(
        json.dumps(
            {name: counts[name] for name in SECTIONS if name in counts}, indent=1
        )
        + "\n"
    )


def table(counts: dict[str, dict[str, int]]) -> str:
    """Return the Markdown table of all sections."""
    rows = ["| section | tried | must hold | violations |", "|---|---|---|---|"]
    for name, count in counts.items():
        section: Section = SECTIONS[name]
        rows.append(
            f"| `{name}` | {count['tried']:,} {section.tried} | {section.invariant} |"
            f" {count['violations']} |"
        )
    return "\n".join(rows)


def update_page(path: Path, counts: dict[str, dict[str, int]]) -> None:
    """Replace the table on a page of the documentation."""
    before, _, rest = path.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    path.write_text(f"{before}{_BEGIN}\n{table(counts)}\n{_END}{after}")


if __name__ == "__main__":
    sys.exit(main())
