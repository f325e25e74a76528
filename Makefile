# Everything a fresh machine with Python 3.11 or newer needs: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.demo
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable

.PHONY: demo test nightly test-oldest test-typer quick lint format types bench bench-page docs dist repo-review schemas pictures reproduce results pages clean torture sbom audit-dependencies

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedconformal needs Python 3.11 or newer; say make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml src/fedconformal/_version.py | $(BIN)/python
	$(PIP) '.[dev]'
	touch $(STAMP)

$(DEMO): pyproject.toml src/fedconformal/_version.py | $(BIN)/python
	$(PIP) '.[cli,sklearn,private,web]'
	touch $(DEMO)

demo: $(DEMO)
	$(BIN)/fedconformal demo

lint: $(STAMP)
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python tools/docstrings.py
	$(BIN)/python tools/check_scripts.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python tools/check_scripts.py --write

types: $(STAMP)
	$(BIN)/mypy

# Tests start some two hundred processes, for which compiled modules are kept.
test quick nightly: export PYTHONDONTWRITEBYTECODE =

# Tests run side by side: threads of linear algebra and of OpenMP would only wait for each other, and they wait busily.
test quick nightly test-oldest test-typer: export OPENBLAS_NUM_THREADS = 1
test quick nightly test-oldest test-typer: export OMP_NUM_THREADS = 1

test: $(STAMP)
	$(MAKE) --jobs=2 lint types
	$(BIN)/pytest --numprocesses=auto --dist=worksteal --cov --cov-report=term --cov-fail-under=95

# All tests, also those that are too long for every change, with more and ever new examples; CONTRIBUTING.md lists
# what is proved only here.
nightly: export HYPOTHESIS_PROFILE = nightly
nightly: $(STAMP) test-typer
	$(BIN)/pytest --numprocesses=auto --dist=worksteal -m ""

# The fast tests with the oldest dependencies that are allowed, on the oldest Python that is; Flower and FLARE pin
# their own.
OLDEST := .venv-oldest
test-oldest:
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint tools/constraints-oldest.txt --editable '.[cli,excel,sklearn,private,plots,web,reproduce]' hypothesis import-linter mapie mpmath numpydoc openpyxl pytest pypdf pytest-xdist python-flint pyyaml selenium
	$(OLDEST)/bin/pytest --numprocesses=auto --dist=worksteal --quiet -m "not slow and not nightly" --ignore=tests/flower --ignore=tests/nvflare --ignore=tests/benchmarks --ignore=tests/test_doors.py --ignore=tests/test_examples.py

# The command line with the typer that users without Flower get, which pins an older one: half a minute on first use.
TYPER := .venv-typer
$(TYPER)/.installed: pyproject.toml
	$(PYTHON) -m venv $(TYPER)
	$(TYPER)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[cli,excel,sklearn,private,web]' 'typer>=0.29' hypothesis openpyxl pytest pytest-xdist
	touch $@

test-typer: $(TYPER)/.installed
	$(TYPER)/bin/pytest --numprocesses=auto --dist=worksteal --quiet -m "not nightly" tests/cli

# The documentation site, offline, in build/docs/html; warnings and links that lead nowhere are errors. Pages of names
# that are gone would be warned about, so all of them are written again.
DOCS := $(VENV)/.docs
$(DOCS): pyproject.toml src/fedconformal/_version.py | $(BIN)/python
	$(PIP) '.[docs]'
	touch $(DOCS)

docs: $(DOCS)
	rm -rf docs/api
	$(BIN)/sphinx-build --fail-on-warning --keep-going --jobs auto docs build/docs/html
	$(BIN)/python tools/check_links.py build/docs/html

# The sdist and the wheel, checked, and the wheel tried in an empty environment with each extra alone.
dist: | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine check-wheel-contents
	$(BIN)/python tools/check_dist.py $(EXTRAS)

# What an installation with all extras brings along, as CycloneDX, and the known vulnerabilities in it.
SUPPLY := build/supply
$(SUPPLY)/bin/python:
	$(PYTHON) -m venv $(SUPPLY)
	$(SUPPLY)/bin/python -m pip install --quiet --disable-pip-version-check '.[all]'

sbom: $(SUPPLY)/bin/python | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom
	mkdir -p dist
	$(BIN)/cyclonedx-py environment --output-reproducible --output-format JSON --output-file dist/fedconformal.cdx.json $(SUPPLY)/bin/python

audit-dependencies: $(SUPPLY)/bin/python | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --skip-editable --path $$($(SUPPLY)/bin/python -c 'import site; print(site.getsitepackages()[0])')

# What the Scientific Python community asks of a repository.
repo-review: | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'sp-repo-review[cli]'
	$(BIN)/repo-review .

# What a contributor waits for after a change: formatting, import contracts and the fast tests.
quick: export HYPOTHESIS_PROFILE = quick
quick: $(STAMP)
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pytest --numprocesses=auto --dist=worksteal --quiet -m "not slow and not nightly"

# All figures, or SECTIONS="votes arrays"; JSON=bench.json writes them to a file, and two such files are compared by
# python -m benchmarks compare OLD NEW.
bench: $(STAMP)
	$(BIN)/python -m benchmarks $(SECTIONS) $(if $(JSON),--json $(JSON))

# The page of the documentation that shows them.
bench-page: $(STAMP)
	$(BIN)/python -m benchmarks page docs/benchmarks.json docs/benchmarks.md

# A quick look at every figure of the paper; QUICK= runs in full.
QUICK ?= --quick
reproduce: $(STAMP)
	$(BIN)/python -m reproduce all $(QUICK)

# Tables, figures and rows of the documentation, from a full run, which continues if it was interrupted; needs PyTorch.
results: $(STAMP)
	$(BIN)/python -m reproduce all --models ridge forest network
	$(BIN)/python -m reproduce.publish docs --from reproduction

# The same tables and figures from the rows in docs, after a change of how they are written or drawn: no fits needed.
pages: $(STAMP)
	$(BIN)/python -m reproduce.publish docs

# Kills, power cuts, hostile files and whole simulated federations: some minutes, or SECTIONS="federations power".
torture: $(STAMP)
	$(BIN)/python -m torture $(SECTIONS) --json docs/torture.json --page docs/security.md

clean:
	rm -rf $(VENV) $(OLDEST) $(TYPER) .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist docs/api docs/gallery docs/sg_execution_times.rst

schemas: $(STAMP)
	$(BIN)/python -c 'import json, pathlib; from fedconformal.documents import kinds, schema; [pathlib.Path(f"docs/schemas/{kind}.schema.json").write_text(json.dumps(schema(kind), indent=2) + "\n") for kind in kinds()]'
	cp docs/schemas/plan.schema.json src/fedconformal/pages/assets/answer/

pictures: $(STAMP)
	$(BIN)/python tests/pages/make_pictures.py docs/figures
