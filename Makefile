# Everything a fresh machine with Python 3.11 or newer needs: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.demo
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable

.PHONY: demo test quick lint format types bench fuzz schemas architecture pictures reproduce results clean

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedconformal needs Python 3.11 or newer; say make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml src/fedconformal/_version.py | $(BIN)/python
	$(PIP) '.[dev]'
	touch $(STAMP)

$(DEMO): pyproject.toml src/fedconformal/_version.py | $(BIN)/python
	$(PIP) '.[cli,sklearn,private]'
	touch $(DEMO)

demo: $(DEMO)
	$(BIN)/fedconformal demo

lint: $(STAMP)
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python tools/docstrings.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP)
	$(BIN)/mypy

test: lint types
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses=auto --dist=worksteal --cov --cov-report=term --cov-fail-under=95

# What a contributor waits for after a change: formatting, import contracts and the fast tests.
quick: $(STAMP)
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses=auto --dist=worksteal --quiet -m "not slow"

bench: $(STAMP)
	$(BIN)/python -m benchmarks

# The picture of the rooms and the table of their imports, from the import contracts.
architecture: $(STAMP)
	$(BIN)/python tools/rooms.py

# A quick look at every figure of the paper; QUICK= runs in full.
QUICK ?= --quick
reproduce: $(STAMP)
	$(BIN)/fedconformal reproduce all $(QUICK)

# The results page of the documentation, from a full run (which goes on where it was, if it was made before).
# REPRODUCE=--cached trains nothing: it takes the fits that are in the folder reproduction.
results: $(STAMP)
	$(BIN)/fedconformal reproduce all --models ridge,forest,network $(REPRODUCE)
	cp reproduction/results.md docs/results.md
	cp reproduction/cases.md docs/cases.md
	cp reproduction/results/summary.csv docs/results.csv
	cp reproduction/results/splits.csv.gz docs/results-splits.csv.gz
	cp reproduction/results/compensation.csv docs/results-compensation.csv
	mkdir -p docs/figures
	cp reproduction/figures/*.png docs/figures

fuzz: $(STAMP)
	$(BIN)/python tests/documents/fuzz_documents.py 100000

clean:
	rm -rf $(VENV) .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache

schemas: $(STAMP)
	$(BIN)/python -c 'import json, pathlib; from fedconformal.documents import kinds, schema; [pathlib.Path(f"docs/schemas/{kind}.schema.json").write_text(json.dumps(schema(kind), indent=2) + "\n") for kind in kinds()]'
	$(BIN)/python -c 'import json, pathlib; from fedconformal.web import openapi; pathlib.Path("docs/schemas/planner.openapi.json").write_text(json.dumps(openapi(), indent=2) + "\n")'

pictures: $(STAMP)
	$(BIN)/python tests/web/make_pictures.py docs/figures
	$(BIN)/python -m fedconformal.experiments.numbers docs/figures
