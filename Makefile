# make demo: set up and answer a question.  make test: set up and run every check.
SHELL := /bin/bash
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(shell command -v $(p) 2>/dev/null)))
VENV := .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
PYODIDE_VERSION := 314.0.7
PYODIDE := build/pyodide/package
PIP := -m pip install --quiet --disable-pip-version-check

.PHONY: demo tour ui page docs test test-slow lint test-peers bench bench-train bench-gradients chaos clean

demo: $(VENV)/product  ## 2×1024 or 1024×2? A study of six shapes, and its report
	$(BIN)/rollshape study demo --out studies/demo
	@echo "make ui shows it in the browser: shapes, curves, runs and probes"

ui: $(VENV)/ui  ## the page on this machine: planner, and the runs, studies and probes of the demo
	@mkdir -p studies
	$(BIN)/rollshape ui studies

page: $(VENV)/product $(PYODIDE)/pyodide.mjs  ## build the static planner in build/page, for any web server
	$(BIN)/python -m rollshape.web.build build/page --pyodide $(PYODIDE)

docs: $(VENV)/ready page  ## the documentation site in build/docs, with the planner; a broken link fails
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo build/docs/index.html

$(PYODIDE)/pyodide.mjs:  # from its npm package; not part of the repository
	@mkdir -p build/pyodide
	cd build/pyodide && npm pack --silent pyodide@$(PYODIDE_VERSION) && tar xzf pyodide-*.tgz && touch package/pyodide.mjs

tour: $(VENV)/product  ## a tour of the planner
	@bash examples/tour.sh $(BIN)/rollshape

test: lint  ## all quick checks
	$(BIN)/python -m pytest -n auto --dist loadfile --ignore=tests/peers

test-slow: $(VENV)/ready  ## learning curves and other long checks
	$(BIN)/python -m pytest -n auto --dist loadfile --ignore=tests/peers -m slow

lint: $(VENV)/ready  ## style, types, and the layers of the house
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-peers: $(PEERS)/ready  ## train with the real libraries and compare with our predictions
	$(PEERS)/bin/python -m pytest tests/peers -n 2

chaos: $(VENV)/ready  ## inject faults: identical end, or one message and nothing lost (docs/reliability.md)
	PYTHONPATH=tests $(BIN)/python -m chaos --json chaos.json

bench: $(VENV)/ready  ## how fast it starts, plans and trains; a line in benchmarks/history.jsonl, compared with earlier ones
	$(BIN)/python benchmarks/history.py

bench-train: $(VENV)/ready  ## training speed and utilisation, beside SB3 where the peers are set up; also a line in the history
	$(BIN)/python benchmarks/train.py

bench-gradients: $(VENV)/ready  ## what gradient statistics and the monitor cost, beside torch.func where there is torch
	$(BIN)/python benchmarks/gradients.py

$(VENV)/product: pyproject.toml constraints.txt
	@echo "setting up $(VENV) with $(PYTHON)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Rollshape needs Python 3.11 or newer; set PYTHON=…")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python $(PIP) -c constraints.txt -e .
	@touch $@

$(VENV)/ui: $(VENV)/product
	$(BIN)/python $(PIP) -c constraints.txt -e '.[ui]'
	@touch $@

# What only the checks and the extras need: a demo should not have to wait for it.
$(VENV)/ready: $(VENV)/product
	$(BIN)/python $(PIP) -c constraints.txt -e '.[dev]'
	@touch $@

# torch comes alone and first, so that nothing else pulls in another build of it.
$(PEERS)/ready: pyproject.toml constraints-peers.txt
	@echo "setting up $(PEERS)"
	$(PYTHON) -m venv --clear $(PEERS)
	$(PEERS)/bin/python $(PIP) torch==2.13.0
	$(PEERS)/bin/python $(PIP) -c constraints-peers.txt stable-baselines3 sb3-contrib sbx-rl rl-games skrl rsl-rl-lib 'ray[rllib]' \
		trl transformers accelerate datasets pytest pytest-xdist -e '.[envpool]'
	$(PEERS)/bin/python $(PIP) --no-deps --target $(PEERS)/trl-1.12 trl==1.12.0  # the last one with PPOTrainer
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) build docs/_generated docs/commands.md docs/python-reference.md .pytest_cache .pytest_jax_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
