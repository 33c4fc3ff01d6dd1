# Every target sets up .venv first, where it is missing or out of date: what training needs, and for developers the tools.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt
# pip would turn all of every package into byte code, tests too; the first import does it for what is used.
BYTE_CODE := import torch.distributed, torch.nn.parallel, weft.training
# What the planner compiles, in pieces that two processors can do at once.
SMALL := full_mesh:workers=4
PROBING := from weft.probing.investigation import compile_inference; compile_inference()
FOREST := from weft.network import full_mesh; from weft.collectives import COLLECTIVES; from weft.ordering import pipelined; \
    n = full_mesh(4); pipelined(COLLECTIVES['forest'](n), n, 1e6, 1.0, 2)

.PHONY: help train test test-slow demo lint format check bench golden clean

help:
	@echo "make train   set up and train on handwritten digits with 4 workers on this machine"
	@echo "make test    set up and run the tests"
	@echo "make test-slow  the tests that make test leaves out: long, and much like others"
	@echo "make demo    set up and compare every collective on an example network"
	@echo "make lint    ruff and mypy"
	@echo "make bench   measure speed; writes a dated file to benchmarks/results"
	@echo "make golden  make SimGrid's numbers again (needs Debian's python3-simgrid)"
	@echo "make clean   remove .venv and caches"

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Weft needs Python 3.11 or newer; try make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@echo "installing torch and compiling the planner for this machine, once; about a minute ..."
	@{ $(BIN)/weft simulate $(SMALL) --collective ring --size 1MB >/dev/null && $(BIN)/python -c "$(PROBING)" && \
	    $(BIN)/weft reproduce asc >/dev/null; } & \
	    $(PIP) --editable '.[train]' && $(BIN)/python -c "$(BYTE_CODE)" && $(BIN)/python -c "$(FOREST)" && wait $$!
	@touch $@

$(TOOLS): $(READY)
	$(PIP) --editable '.[dev,train]'
	@touch $@

train: $(READY)
	$(BIN)/weft train examples/digits.toml --workers 4 --fresh

test: $(TOOLS)
	$(BIN)/python -m pytest --numprocesses 2

test-slow: $(TOOLS)
	$(BIN)/python -m pytest -m slow

demo: $(READY)
	$(BIN)/weft compare examples/two-racks.yaml --size 100MB

lint: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(TOOLS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint test

bench: $(TOOLS)
	$(BIN)/python -m benchmarks.core
	$(BIN)/python -m benchmarks.executor
	$(BIN)/python -m benchmarks.incast
	$(BIN)/python -m benchmarks.planner
	$(BIN)/python -m benchmarks.runtime
	$(BIN)/python -m benchmarks.training
	$(BIN)/python -m benchmarks.probing
	$(BIN)/python -m benchmarks.overlap
	$(BIN)/python -m benchmarks.sparse_compute
	$(BIN)/python -m benchmarks.sparse
	$(BIN)/python -m benchmarks.groups
	$(BIN)/python -m benchmarks.adaptation

golden: $(READY)
	$(BIN)/python tests/golden/export.py $(VENV)/golden.json
	/usr/bin/python3 tests/golden/simgrid_run.py $(VENV)/golden.json tests/golden/simgrid.json

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
