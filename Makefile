# Two commands: `make demo` and `make test`. Both set everything up in .venv first.
PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: demo test lint types check clean

.venv/ready: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "aimfor needs Python 3.11 or newer: make PYTHON=/path/to/python"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@# torch first and exactly, or gigabytes of CUDA follow
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt --group dev -e ".[train]"
	@touch $@

demo: .venv/ready
	@$(BIN)/aimfor demo --out runs/demo

test: .venv/ready
	$(BIN)/python -m pytest -n 2 -q

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

check: lint types test

clean:
	rm -rf .venv
