# make demo: forecast the sample data, with a report. make check: style, types, layers. make docs: the site.
# make test: what runs in minutes. make test-slow: the rest (exports, compilers, processes, whole runs). make test-all: both.
# make test-oldest: what is read and forecast with the oldest versions of pandas, numpy and others, next to the
# packages that the leaderboard compares with (Python 3.11, 3.12).
# make fuzz: other generated data files, and damaged model files and runs, than those of make test, for about MINUTES.
PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
MINUTES ?= 5
QUICK := $(addprefix tests/, corpus golden contracts/test_refusals.py data/test_frequency.py data/test_times.py test_zero.py test_sktime.py test_leaderboard.py workflow/test_forecast_command.py)
ifeq ($(OS),Windows_NT)
SCRIPTS := Scripts
else
SCRIPTS := bin
endif
BIN := $(VENV)/$(SCRIPTS)
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder
PIP := -m pip install --quiet --disable-pip-version-check -c
INSTALL := $(BIN)/python $(PIP) constraints.txt

.PHONY: demo test test-slow test-all test-oldest check docs fuzz format clean

demo: RUN := runs/demo_$(shell date +%Y-%m-%d_%H-%M-%S)
demo: $(VENV)/.user
	$(BIN)/informer forecast data/sample.csv target=demand output=$(RUN)
	@echo
	@echo "Open this page in a browser:"
	@echo "$(CURDIR)/$(RUN)/report.html"

# one process per core, one thread each; a file's tests stay together, they share what they set up, in the order of conftest.py
test: $(VENV)/.dev
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.dev
	$(PYTEST) -m slow

test-all: test test-slow

# DeprecationWarnings of old versions of other libraries are no errors
test-oldest: $(OLDEST)/.dev
	OMP_NUM_THREADS=1 $(OLDEST)/$(SCRIPTS)/python -m pytest -n auto --dist loadfile -m "not slow" -W ignore::DeprecationWarning $(QUICK)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_imports.py

fuzz: $(VENV)/.dev
	OMP_NUM_THREADS=1 FUZZ_MINUTES=$(MINUTES) $(BIN)/python -m pytest tests/generated $(if $(SEED),--hypothesis-seed=$(SEED))

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

$(OLDEST)/.dev: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/$(SCRIPTS)/python $(PIP) constraints-oldest.txt -e '.[peers,holidays]' pytest pytest-xdist pytest-timeout beartype hypothesis polars duckdb sktime
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) build dist .pytest_cache .mypy_cache .ruff_cache
