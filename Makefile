# make demo, make test, make bench: each sets up what it needs in .venv first.

PY ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
OUT := out
BENCH ?= generated
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test test-spark-matrix lint bench docs wheel clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	@test -n "$(PY)" || { echo "no Python found: install Python 3.11, or call make PY=/path/to/python"; exit 1; }
	@"$(PY)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PY) is too old: install Python 3.11, or call make PY=/path/to/python"; exit 1; }
	"$(PY)" -m venv $(VENV)

# One stamp for each set of dependencies; a second call has nothing to do.
$(VENV)/installed-core: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/installed-test: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[test,bench]'
	@touch $@ $(VENV)/installed-core

$(VENV)/installed-bench: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[bench]'
	@touch $@ $(VENV)/installed-core

DEMO = $(BIN)/gpuengine run examples/road-graph/reach.dl -F examples/road-graph/facts -D $(OUT)/road-graph \
	--backend cpu --stats

demo: $(VENV)/installed-core ## materialise a real road graph; prints relations, sizes, times
	@echo "First run: a clone compiles the kernels that are not in the cache yet, once for this machine."
	@$(DEMO)
	@echo "Second run: every kernel comes from the cache, as in a wheel that brings them (make wheel)."
	@$(DEMO)
	@echo "The facts are in $(OUT)/road-graph. Next: $(BIN)/gpuengine plan examples/road-graph/reach.dl"

lint: $(VENV)/installed-test ## style, types, the direction of imports, code without a caller
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture

test: lint ## lint, and the whole test suite
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-spark-matrix: $(VENV)/installed-test ## Spark's essentials with the versions that make test leaves out
	GPUENGINE_SPARK_VERSIONS='3.5.9 4.2.1' $(BIN)/python -m pytest tests/spark_bridge/test_versions.py

bench: $(VENV)/installed-bench ## compare with the peers found on this machine
	$(BIN)/python -m bench run $(BENCH)

docs: $(VENV)/installed-test ## out/docs/index.html: the guides, and an API reference made of docstrings
	$(BIN)/python docs/reference.py $(OUT)/docs

wheel: $(BIN)/python ## dist/gpuengine-….whl with compiled kernels for this kind of machine
	GPUENGINE_WHEEL_KERNELS=all $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps -w dist .

clean: ## remove everything that was made here
	rm -rf $(VENV) $(OUT) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	  .import_linter_cache
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
