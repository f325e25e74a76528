# Everything a fresh machine with Python 3.11 or newer needs: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint types bench fuzz schemas pictures clean

$(STAMP): pyproject.toml src/fedconformal/_version.py
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedconformal needs Python 3.11 or newer; say make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/fedconformal demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

test: lint types
	$(BIN)/pytest --numprocesses=auto --cov --cov-report=term --cov-fail-under=95

bench: $(STAMP)
	$(BIN)/python -m benchmarks

fuzz: $(STAMP)
	$(BIN)/python tests/fuzz_documents.py 100000

clean:
	rm -rf $(VENV) .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache

schemas: $(STAMP)
	$(BIN)/python -c 'import json, pathlib; from fedconformal.documents import schema; [pathlib.Path(f"docs/schemas/{kind}.schema.json").write_text(json.dumps(schema(kind), indent=2) + "\n") for kind in ("plan", "report", "calibration")]'
	$(BIN)/python -c 'import json, pathlib; from fedconformal.planner import openapi; pathlib.Path("docs/schemas/planner.openapi.json").write_text(json.dumps(openapi(), indent=2) + "\n")'

pictures: $(STAMP)
	$(BIN)/python tests/make_pictures.py docs/figures
