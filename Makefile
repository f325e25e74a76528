# Everything a fresh machine with Python 3.11 or newer needs: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.demo
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable

.PHONY: demo test lint types bench fuzz schemas pictures reproduce results clean

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
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

test: lint types
	$(BIN)/pytest --numprocesses=auto --dist=worksteal --cov --cov-report=term --cov-fail-under=95

bench: $(STAMP)
	$(BIN)/python -m benchmarks

# A quick look at every figure of the paper; QUICK= runs in full.
QUICK ?= --quick
reproduce: $(STAMP)
	$(BIN)/fedconformal reproduce all $(QUICK)

# The results page of the documentation, from a full run (which goes on where it was, if it was made before).
results: $(STAMP)
	$(BIN)/fedconformal reproduce all $(REPRODUCE)
	cp reproduction/results.md docs/results.md
	cp reproduction/results/summary.csv docs/results.csv
	mkdir -p docs/figures
	cp reproduction/figures/*.png docs/figures

fuzz: $(STAMP)
	$(BIN)/python tests/fuzz_documents.py 100000

clean:
	rm -rf $(VENV) .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache

schemas: $(STAMP)
	$(BIN)/python -c 'import json, pathlib; from fedconformal.documents import schema; [pathlib.Path(f"docs/schemas/{kind}.schema.json").write_text(json.dumps(schema(kind), indent=2) + "\n") for kind in ("plan", "report", "calibration", "check", "group-plan", "group-report", "group-calibration")]'
	$(BIN)/python -c 'import json, pathlib; from fedconformal.planner import openapi; pathlib.Path("docs/schemas/planner.openapi.json").write_text(json.dumps(openapi(), indent=2) + "\n")'

pictures: $(STAMP)
	$(BIN)/python tests/make_pictures.py docs/figures
