# Needs Python 3.11 or newer and make; everything else is installed into .venv.

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check

# Stamp files: an installation is repeated only when pyproject.toml has changed since.
BASE := $(VENV)/.installed-base
DEV := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help demo test test-quick lint format types check bench bench-tick bench-peers clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(BASE) ## run the demo on the base installation
	@$(BIN)/stepwell demo

test: $(DEV) ## run every test on SQLite and PostgreSQL; ARGS go to pytest
	@$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

test-quick: $(DEV) ## run the tests that take no seconds; ARGS go to pytest
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" $(ARGS)

lint: $(DEV) ## check style, formatting and what imports what
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo --no-cache

format: $(DEV) ## mend style and formatting
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: $(DEV) ## check types
	@$(BIN)/mypy

check: lint types test ## everything that must hold before a commit

bench: $(DEV) ## measure Stepwell beside the limit and its peers; ARGS go to the benchmark
	@$(BIN)/python -m bench $(ARGS)

bench-tick: $(DEV) ## measure the tick; ARGS go to the benchmark
	@$(BIN)/python -m bench.tick $(ARGS)

bench-peers: $(DEV) ## measure other job queues under the same work; ARGS go to the benchmark
	@$(BIN)/python -m bench.peers $(ARGS)

clean: ## remove the virtual environments, caches and builds
	rm -rf $(VENV) .bench build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Stepwell needs Python 3.11 or newer, but $(PYTHON) is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv $(VENV)

$(BASE): pyproject.toml | $(VENV)/bin/python
	@$(PIP_INSTALL) -e .
	@touch $@

$(DEV): pyproject.toml | $(VENV)/bin/python
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $(BASE) $@
