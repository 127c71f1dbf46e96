# Everything here works on a fresh machine that has Python 3.10 or newer and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# torch 2.13.0 exactly: a range of versions may select builds of several gigabytes.
TORCH := torch==2.13.0
DEMO := $(or $(TMPDIR),/tmp)/ranktable-demo-$(shell id -u)

# Compiled once, and not by every process that a test starts.
unexport PYTHONDONTWRITEBYTECODE
FAST := not torch and not slow
PYTEST := $(BIN)/python -m pytest -q
# One worker more than there are cores, because some tests wait. Tests of one xdist_group
# share a process.
WORKERS := $(shell expr `getconf _NPROCESSORS_ONLN` + 1)
PARALLEL := $(PYTEST) -n $(WORKERS) --dist loadgroup
# Tests that measure deadlines run alone, after all other tests.
DEADLINES := $(shell grep -rl --include='test_*.py' 'mark[.]deadline' tests)

.PHONY: all demo test test-all laws test-pythons fast-test check lint types bench golden
.PHONY: torch-matrix packages docs clean

all: check

$(VENV)/base: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

$(VENV)/torch: $(VENV)/base
	$(BIN)/python -m pip install --quiet '$(TORCH)' numpy
	touch $@

# What only some tests need: libraries with the same functions, Kubernetes' own schemas,
# which are large, and what drives a browser, if there is one, and judges pages.
$(VENV)/rivals: $(VENV)/torch Makefile
	$(BIN)/python -m pip install --quiet kubernetes-validate==1.37.0
	$(BIN)/python -m pip install --quiet --no-deps \
		mmengine==0.10.7 addict==2.4.0 yapf==0.43.0 termcolor
	$(BIN)/python -m pip install --quiet 'playwright>=1.40' axe-playwright-python
	touch $@

## demo: eight processes read one table and add up, on CPUs and on simulated chips
demo: $(VENV)/torch
	mkdir -p $(DEMO)
	$(BIN)/ranktable gen --device-id '[[0,2,6,7,3,1,5,4]]' \
		--output $(DEMO)/table.json --force
	$(BIN)/ranktable validate $(DEMO)/table.json
	RANK_TABLE_FILE=$(DEMO)/table.json OMP_NUM_THREADS=1 $(BIN)/torchrun \
		--standalone --nproc-per-node 8 examples/all_reduce.py
	$(BIN)/ranktable simulate --rank-table $(DEMO)/table.json
	rm -rf $(DEMO)

## test: what a change needs: all tests but those that start clusters and whole documents
test: $(VENV)/rivals
	$(PARALLEL) -m 'not slow and not deadline'
	$(PYTEST) -m 'deadline and not slow' $(DEADLINES)

## test-all: every test, laws with all of their examples, and every Python that is here
test-all: $(VENV)/rivals
	$(PARALLEL) -m 'not deadline' --hypothesis-profile=thorough
	$(PYTEST) -m deadline $(DEADLINES)
	$(MAKE) test-pythons

## laws: ten times as many examples of each law as test-all, and others each time
laws: $(VENV)/rivals
	$(PARALLEL) tests/property --hypothesis-profile=drawn

## test-pythons: the fast tests on every other Python that is installed
test-pythons:
	.ci/pythons

## fast-test: the tests that need no torch, laws with a fifth of their examples
fast-test: $(VENV)/base
	$(PARALLEL) -m '$(FAST)'

## check: lint, types, tests
check: lint types test

lint: $(VENV)/base
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/torch
	$(BIN)/mypy

## bench: every budget beside its rival, as one table
bench: $(VENV)/rivals
	$(BIN)/python -m benchmarks

## torch-matrix: runtime and dist on every torch that people have; takes gigabytes
torch-matrix:
	.ci/torch-matrix $(VERSIONS)

## golden: rewrite the expected outputs, to be read in review
golden: $(VENV)/base
	$(BIN)/python -m pytest -q -m 'not torch' tests/test_golden.py tests/test_docs.py \
		--update-golden

## packages: the wheel and the source distribution, in dist
packages: $(VENV)/base
	$(BIN)/python -m build

## docs: the documentation site and the man pages, in build
docs: $(VENV)/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/html
	$(BIN)/python docs/man_pages.py build/man

$(VENV)/docs: $(VENV)/base
	$(BIN)/python -m pip install --quiet 'sphinx>=8' 'myst-parser>=4' 'furo>=2024.8' 'sphinx-copybutton>=0.5'
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
