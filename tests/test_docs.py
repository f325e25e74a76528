"""Every command and every line of Python in the documentation is run, and its output compared.

``python`` blocks with ``>>>`` are doctests, others are executed; ``console`` blocks run their ``$`` lines in
bash and compare what follows. All blocks of a page share one empty directory and one namespace. In outputs,
``...`` stands for anything.
"""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_python(code, namespace, page):
    if ">>>" not in code:
        exec(compile(code, str(page), "exec"), namespace)
        return
    test = doctest.DocTestParser().get_doctest(code, namespace, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    failures = []
    runner.run(test, out=failures.append, clear_globs=False)
    namespace.update(test.globs)
    assert not failures, "".join(failures)


def run_console(code, directory):
    for step in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, output = split_command(step)
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TERM": "dumb",
        }
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        code_expected = int(match[1]) if (match := re.search(r"# exit code (\d+)", command)) else 0
        assert done.returncode == code_expected, f"{command}\n{done.stdout}"
        if output.strip():
            assert doctest.OutputChecker().check_output(output, done.stdout, FLAGS), (
                f"{command}\n--- documented\n{output}\n--- printed\n{done.stdout}"
            )


def split_command(step):
    """The command, with its continuation lines, and the output shown after it."""
    lines = step.splitlines(keepends=True)
    end = 1
    while lines[end - 1].rstrip("\n").endswith("\\"):
        end += 1
    return "".join(lines[:end]), "".join(lines[end:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__page__"}
    for language, code in BLOCK.findall(page.read_text()):
        if language == "python":
            run_python(code, namespace, page)
        else:
            run_console(code, tmp_path)


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
