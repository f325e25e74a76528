"""What is written down in several places for a release says the same everywhere."""

import re
import tomllib
from pathlib import Path

import pytest
import smoke
import yaml
from check_dist import extras, relative_links

from fedconformal import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_one_version_and_one_date():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    newest = re.search(
        r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$",
        (ROOT / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )
    assert newest, "the newest version of the changelog has no date"
    assert {str(citation["version"]), recipe["context"]["version"], newest[1]} == {
        __version__
    }
    assert str(citation["date-released"]) == newest[2]


def test_the_conda_recipe_needs_what_the_package_needs():
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    run = {
        line.replace(" ", "")
        for line in recipe["requirements"]["run"]
        if not line.startswith("python ")
    }
    assert run == set(PROJECT["dependencies"])
    assert PROJECT["requires-python"] == f">={recipe['context']['python_min']}"


def bounds(lines):
    """The lower bound of each requirement that has one."""
    found = (re.match(r"([A-Za-z0-9._-]+)>=([^,]+)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def test_the_oldest_dependencies_are_the_lower_bounds():
    wanted = bounds(PROJECT["dependencies"])
    for extra in {*extras(), "reproduce"} - {
        "core",
        "flower",
        "nvflare",
    }:  # these pin too much
        wanted |= bounds(PROJECT["optional-dependencies"][extra])
    lines = (ROOT / "tools" / "constraints-oldest.txt").read_text().splitlines()
    assert dict(line.split("==") for line in lines if not line.startswith("#")) == {
        name: version + ".0" * (2 - version.count("."))
        for name, version in wanted.items()
    }


def test_every_extra_has_a_smoke_test_and_every_dependency_an_upper_bound():
    assert set(smoke.SMOKE) == set(extras())
    optional = [
        PROJECT["optional-dependencies"][extra] for extra in set(extras()) - {"core"}
    ]
    for line in sum(optional, PROJECT["dependencies"]):
        assert "<" in line or line.startswith("fedconformal["), line


@pytest.mark.slow
@pytest.mark.parametrize(
    "extra", [smoke.calibrated, smoke.excel, smoke.sklearn, smoke.private, smoke.web]
)
def test_what_the_wheel_is_tried_with_works_here(extra, tmp_path, monkeypatch):
    """Those that need no other environment: the rest is tried with the wheel alone."""
    monkeypatch.chdir(tmp_path)
    extra()


def targets():
    """What can be asked of make."""
    found = re.findall(
        r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    phony = re.search(
        r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )[1].split()
    assert set(found) == set(phony)
    return set(found)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_is_there(path):
    """Every step is an action with a version or a command; each make target, script and
    needed job exists.
    """
    workflow = yaml.safe_load(path.read_text())
    assert {"name", True, "permissions", "jobs"} <= set(
        workflow
    )  # YAML 1.1 reads `on` as true
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 60
        needed = job.get("needs", [])
        assert set([needed] if isinstance(needed, str) else needed) <= set(
            workflow["jobs"]
        )
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"] == {"persist-credentials": False}
            assert ("uses" in step) != ("run" in step)
            assert re.fullmatch(
                r"[\w-]+/[\w.-]+@[0-9a-f]{40}", step.get("uses", f"a/b@{40 * '0'}")
            )
            for command in step.get("run", "").splitlines():
                asked = re.findall(r"(?<!\S)make ([a-z-]+)", command)
                assert set(asked) <= targets(), command
                for script in re.findall(r"bash (\S+)", command):
                    assert (ROOT / script).is_file(), command


def test_workflows_cover_what_a_release_needs():
    text = "".join(path.read_text() for path in WORKFLOWS)
    for command in (
        "bash .ci/run",
        "make nightly",
        "make test-oldest",
        "make test-typer",
        "make docs",
        "make dist",
        "make sbom",
        "make torture",
        "make audit-dependencies",
    ):
        assert f"run: {command}\n" in text
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())[
        "jobs"
    ]
    assert set(release["publish"]["needs"]) == {"build", "test"}
    assert {"run": "bash .ci/run"} in release["test"]["steps"]
    tested = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"][
        "test"
    ]
    promised = [
        line.rpartition(" ")[2]
        for line in PROJECT["classifiers"]
        if re.search(r":: 3\.\d+$", line)
    ]
    assert tested["strategy"]["matrix"]["python"] == promised


def test_links_of_a_description_are_looked_at(tmp_path):
    import zipfile

    path = tmp_path / "fedconformal-0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(
            "fedconformal-0.dist-info/METADATA",
            "Name: x\n\n[a](https://x) [b](#c) [d](docs/e.md)",
        )
    assert [line.partition(": ")[2] for line in relative_links(path)] == [
        "the description links to docs/e.md"
    ]


def test_links_of_the_readme_become_addresses():
    """What the build does to the README, done here: nothing relative is left, and pages
    are those of docs.
    """
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    text = (ROOT / "README.md").read_text()
    for rule in tool["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"][
        "substitutions"
    ]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    targets = re.findall(r"\]\((.*?)\)", text)
    assert targets
    assert all(target.startswith("https://") for target in targets)
    pages = re.findall(r"readthedocs\.io/en/latest/([a-z-]+)\.html", text)
    assert pages
    assert all((ROOT / "docs" / f"{page}.md").is_file() for page in pages)
