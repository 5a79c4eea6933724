# Every target sets up what it needs first, and does nothing that is done already.
# PYTHON=... names the interpreter (3.11 or newer); otherwise the first fit one is taken.
# BENCH='--quick --only start' are options of `make bench`; `make bench BENCH=--help` tells them.
# FUZZ='--seconds 3600 --only wire' are those of `make fuzz`.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
export PYTHON

VENV := .venv
READY := $(VENV)/.ready
EXECUTABLE := dist/codex-multitool
# folders too: their times tell of files that went away
MANUAL := dist/share/man/man1/codex-multitool.1
SOURCES := $(shell find codex_multitool -name '*.py' -o -type d ! -name __pycache__) \
	packaging/start.py packaging/zipapp.py

.PHONY: help setup build manual shells run test bench fuzz soak check lint clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## system packages, virtual environment, dependencies

build: $(EXECUTABLE) $(MANUAL) ## dist/codex-multitool, its other names, and its man pages

manual: $(MANUAL) ## the man pages, and docs/reference/commands.md
	@$(VENV)/bin/python packaging/manual.py --write

shells: $(READY) ## patched bash and zsh, in a cache folder outside the tree
	@$(VENV)/bin/python packaging/shells/build.py --install-packages >/dev/null

run: build shells ## set up, build, and show a session with the server
	@$(VENV)/bin/python packaging/demo.py

test: build shells ## set up, build, and run all tests
	@sh packaging/system.sh shells
	@$(VENV)/bin/python -m pytest -ra

bench: build shells ## measure this server and the original from npm, side by side
	@$(VENV)/bin/python -m bench $(BENCH)

soak: build ## execs met by SIGKILL at random moments, for SECONDS (600)
	@$(VENV)/bin/python -m tests.soak --seconds $(or $(SECONDS),600)

fuzz: $(READY) ## fuzz all that reads an enemy's words, by coverage, for ten minutes
	@$(VENV)/bin/python -c 'import atheris' 2>/dev/null || \
		$(VENV)/bin/python -m pip install --quiet --editable '.[fuzz]' || true
	@$(VENV)/bin/python -m fuzz $(FUZZ)

check: lint test ## all that must hold before a commit: lint, types, tests

lint: $(READY) ## style, format and types
	@failed=0; for tool in "ruff check" "ruff format --check" mypy; do \
		$(VENV)/bin/$$tool || failed=1; \
	done; $(VENV)/bin/python packaging/manual.py --check || failed=1; exit $$failed

clean: ## remove what the targets above made in the tree
	rm -rf build dist $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(READY): pyproject.toml packaging/system.sh
	@sh packaging/system.sh install
	@echo "Setting up $(VENV)"
	@"$$(sh packaging/system.sh python)" -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --use-pep517 --editable '.[dev]'
	@touch $@

$(EXECUTABLE): $(SOURCES) pyproject.toml $(READY)
	@echo "Building $@"
	@$(VENV)/bin/python packaging/zipapp.py

$(MANUAL): $(SOURCES) packaging/manual.py $(wildcard docs/reference/*.md) $(READY)
	@$(VENV)/bin/python packaging/manual.py --man $(@D)
