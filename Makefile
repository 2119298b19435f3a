# Everything a newcomer types. Each target prepares what it needs; setup is skipped in a second when it is done.

PYTHON ?= python3
BIN := .venv/bin
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup quickstart demo-serve test test-fast mutate check clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20
	@echo "  PYTHON=python3.12 chooses the Python of make setup; ASD_SWEEP_DEVICE=cpu|gpu overrides its look for a GPU; JOBS=1 tests one file at a time."

setup:  ## make .venv with torch, vLLM and the project; convert the embedded model once
	@$(PYTHON) tools/setup.py

quickstart: setup  ## measure the quickstart study on a real engine and print its frontier
	$(BIN)/asd-sweep start --study quickstart
	$(BIN)/asd-sweep frontier --study quickstart

demo-serve: setup  ## freeze a cell of the quickstart study, sign, verify and export it, and serve with it (about 20 minutes, the study included)
	$(BIN)/python tools/demo_serve.py --study quickstart

test: setup  ## the whole suite, real engine included (about half an hour on 2 cores)
	$(BIN)/python -P -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

test-fast: setup  ## the tests that start no engine and no cluster (two minutes)
	$(BIN)/python -P -m pytest -n $(JOBS) --dist loadfile -m "not engine and not ray and not gpu and not slow"

mutate: setup  ## take the guards of the artifact's verification away one at a time: does a test notice each?
	$(BIN)/python tools/mutate_verify.py

check: setup  ## format, lint, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:  ## remove caches and builds; .venv and stored studies stay
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .setup.lock
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
