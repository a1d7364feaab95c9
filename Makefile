# Everything that people and CI run. `make demo` and `make test` need Python 3.11+ and set up the rest.
#
#   make demo    the whole system on this machine, no GPU and no cluster needed
#   make test    all tests
#   make check   ruff, mypy --strict, import-linter
#   make bench   every table in docs/performance.md
#   make test-cluster    the tests that need a real Kubernetes control plane
#   make demo-cluster    the demo on a real Kubernetes control plane
#   make lock    resolve the locked dependencies anew (maintainers)

VENV ?= .venv
# The first of these that is 3.11 or newer makes the virtual environment.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)
BIN := $(VENV)/bin
# Tests may not take all cores of a small machine twice over.
WORKERS ?= auto
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test test-cluster demo-cluster check lint types layers format bench lock setup setup-demo clean help
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

demo: setup-demo
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/baro demo $(ARGS)

test: setup
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

# A real control plane from Go modules, built once into ~/.cache/baro (about ten minutes on two cores).
test-cluster: setup
	BARO_CLUSTER=1 PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest tests/cluster $(ARGS)

demo-cluster: setup
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m tests.cluster.demo $(ARGS)

check: lint types layers

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m bench

# --- set-up ---------------------------------------------------------------------------------------------
# One environment, two stamps: the demo needs no test tools, and `make test` brings everything.

setup: $(VENV)/.dev
setup-demo: $(if $(wildcard $(VENV)/.dev),$(VENV)/.dev,$(VENV)/.demo)

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "baro needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than Python 3.11; set PYTHON=" >&2; exit 1; }
	@echo "making $(VENV) with $(PYTHON) (once)" >&2
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make virtual environments: install its venv package (Debian: python3-venv) or set PYTHON=" >&2; rm -rf $(VENV); exit 1; }

$(VENV)/.demo: requirements/demo.txt pyproject.toml | $(VENV)/bin/python
	@echo "installing locked dependencies (once)" >&2
	@$(PIP) install --require-hashes --requirement requirements/demo.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(VENV)/bin/python
	@echo "installing locked dependencies (once)" >&2
	@$(PIP) install --require-hashes --requirement requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# uv resolves for every platform at once; existing pins stay unless UPGRADE=--upgrade is given.
lock:
	@command -v uv >/dev/null || { echo "make lock needs uv" >&2; exit 1; }
	@for group in demo dev; do \
		uv pip compile --quiet pyproject.toml --group $$group --universal --generate-hashes --python-version 3.11 \
			--no-header --no-annotate $(UPGRADE) --output-file requirements/$$group.txt || exit 1; \
	done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
