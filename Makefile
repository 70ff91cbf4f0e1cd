# make demo: train, score and forecast on the sample data. make test: the whole suite. make check: style, types, layers.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test check format clean

demo: $(VENV)/.user
	$(BIN)/python -m informer.train dataset=sample model=small optim.lr=1e-3
	$(BIN)/python -m informer.eval checkpoint=runs/latest
	$(BIN)/python -m informer.predict checkpoint=runs/latest input=data/sample.csv output=forecasts
	@echo
	@echo "Forecast:     forecasts/sample.forecast.csv"
	@echo "Its plot:     forecasts/sample.forecast.png"
	@echo "Curves:       $(BIN)/tensorboard --logdir runs"

# one process a core, one thread each; a file's tests stay together, they share what they set up
test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_imports.py

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
