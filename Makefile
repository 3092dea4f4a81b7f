# Two commands: `make demo` and `make test`. Both set up what they need in .venv first: the demo the program alone,
# the tests the developers' tools as well.
PYTHON ?= python3.11
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PIP := $(BIN)/python -m pip install --quiet -c constraints.txt

.PHONY: demo test laws lint types check docs bench wheel evidence mutants clean

.venv/program: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "aimfor needs Python 3.11 or newer: make PYTHON=/path/to/python"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@# torch first and exactly, or gigabytes of CUDA follow
	$(PIP) torch
	$(PIP) -e ".[train]"
	@touch $@

.venv/ready: .venv/program
	$(PIP) --group dev
	@touch $@

# A loss that finds a rare class, a decision that holds, then models compared on equal terms: all in runs/demo.
demo: .venv/program
	@mkdir -p runs/demo
	@for act in rare_masks guaranteed_floor; do \
	  (cd runs/demo && ../../$(BIN)/python ../../examples/$$act.py && echo "picture: runs/demo/$$act.svg" && echo); done
	@$(BIN)/aimfor demo --out runs/demo/compare

# Compiled sources and assertions are kept for the next run: each process would spend seconds on them anew.
test: .venv/ready
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 -q

# The laws over every metric and engine with ten times the draws, and 20,000 steps each that must not grow. Takes an hour or two.
laws: .venv/ready
	AIMFOR_DRAWS=long $(BIN)/python -m pytest -n 2 -q tests/test_laws.py tests/test_memory.py tests/test_transforms.py \
	  tests/test_gradients.py tests/test_undefined.py tests/metrics

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell $$(git ls-files '*.md' '*.py' '*.toml' '*.yml' ':!tests')

types: .venv/ready
	$(BIN)/mypy

# Wheel and sdist in a new environment: torch alone, the program, pictures. PYTHONS=1 also asks the index for wheels for
# every Python that the metadata name.
wheel: .venv/ready
	$(BIN)/python tools/check_wheel.py --program $(if $(PYTHONS),--pythons)

check: lint types test

.venv/docs: .venv/ready
	$(PIP) --group docs
	@touch $@

# The site, in build/docs; a dead link, a page that no menu holds or a public name without a docstring is an error, and
# so is a word of the glossary that the search does not find on its page first. -E: what is read again alone loses those words.
docs: .venv/docs
	$(BIN)/python -m sphinx -E -W --keep-going -q -j 2 -b html docs build/docs
	$(BIN)/python tools/look_at_site.py build/docs
	@echo "build/docs/index.html"

# A peer that does not install is named on the page.
.venv/peers: .venv/ready
	-$(PIP) -e ".[bench]"
	-for peer in libauc qpth ecos; do $(PIP) --no-deps $$peer; done
	@touch $@

# Every table of docs/benchmarks.md, measured again beside every peer that installs, and the numbers that other pages quote from
# them. Takes half an hour on two quick cores, hours on slow ones; ONLY="sorted curves" takes those that contain one of the words, SINCE=2026-11-18 goes on with a run that was stopped: it leaves out what was measured
# on that day or later. AIMFOR_DATA names the folder of data sets.
bench: .venv/peers
	$(BIN)/python paper/benchmarks/run.py $(if $(ONLY),--only $(ONLY)) $(if $(SINCE),--since $(SINCE))

# EVIDENCE.md and every table beside it, from the cells that are stored; `python -m paper NAME` measures them anew.
evidence: .venv/ready
	$(BIN)/python -m paper all --cached-only
	$(BIN)/python -m paper --evidence

# A sample of small changes to the core; every one of them should make a test fail. Takes an hour.
mutants: .venv/ready
	$(BIN)/python tools/mutants

clean:
	rm -rf .venv
