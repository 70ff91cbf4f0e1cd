# make demo: forecast the sample data, with a report. make check: style, types, layers. make docs: the site.
# make test: what runs in minutes. make test-slow: the rest (exports, compilers, processes, whole runs). make test-all: both.
# make fuzz: generated data files, checkpoints and run directories, for MINUTES.
PYTHON ?= python3
VENV := .venv
MINUTES ?= 5
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-slow test-all check docs fuzz format clean

demo: $(VENV)/.user
	$(BIN)/informer forecast data/sample.csv target=demand budget=2 output=runs/demo_$(shell date +%Y-%m-%d_%H-%M-%S)
	@echo
	@echo "Open this page in a browser:"
	@echo "$(CURDIR)/runs/$$(cat runs/latest)/report.html"

# one process per core, one thread each; a file's tests stay together, they share what they set up, in the order of conftest.py
test: $(VENV)/.dev
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.dev
	$(PYTEST) -m slow

test-all: test test-slow

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_imports.py

fuzz: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python scripts/fuzz.py --minutes $(MINUTES) --seed 0

docs: $(VENV)/.dev
	OMP_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/.user: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	touch $@

$(VENV)/.dev: $(VENV)/.user
	$(INSTALL) -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
