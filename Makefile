# Every target sets up what it needs first, and does nothing that is done already.
# PYTHON=... names the interpreter (3.11 or newer); otherwise it is that of .venv, the distribution's, or the
# first fit one in PATH.
# TESTS='tests/cli -x' are what `make test` is to run, and options of pytest.
# WORKERS=0 runs them one after the other; otherwise three at a time for every two processors: many wait.
# BENCH='--quick --only start' are options of `make bench`; `make bench BENCH=--help` tells them.
# FUZZ='--seconds 3600 --only wire' are those of `make fuzz`.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
export PYTHON
# whatever the user's pip.conf says
export PIP_USER := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1
.NOTPARALLEL:

VENV := .venv
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
SYSTEM := sh packaging/system.sh
# what the goals take besides what the build does
WANTED := $(if $(filter test check test-clients,$(MAKECMDGOALS)),tests,$(if $(filter shells bench,$(MAKECMDGOALS)),shells))
# what pip installs at once, rather than in a second run
EXTRAS := $(if $(filter setup test test-clients bench soak fuzz check lint,$(MAKECMDGOALS)),[dev])
WORKERS := $(shell echo $$((($$(nproc) * 3 + 1) / 2)))
# `again` where .venv was made for another interpreter or tree, or its interpreter is gone
STALE := $(shell PYTHON='$(PYTHON)' $(SYSTEM) stale)
PIP := $(SYSTEM) quietly build/pip.log $(VENV)/bin/python -m pip install --use-pep517
EXECUTABLE := dist/codex-multitool
# folders too: their times tell of files that went away
MANUAL := dist/share/man/man1/codex-multitool.1
SOURCES := $(shell find codex_multitool -name '*.py' -o -type d ! -name __pycache__) \
	packaging/start.py packaging/zipapp.py

.PHONY: help setup build manual shells run test test-clients test-machines test-kernels bench fuzz soak check lint clean \
	packages again

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(TOOLS) ## system packages, virtual environment, dependencies

build: $(EXECUTABLE) $(MANUAL) ## dist/codex-multitool, its other names, and its man pages

manual: $(MANUAL) ## the man pages, and docs/reference/commands.md
	@$(VENV)/bin/python packaging/manual.py --write

shells: packages $(READY) ## patched bash and zsh, in a cache folder outside the tree
	@$(VENV)/bin/python packaging/shells/build.py >/dev/null

run: build ## set up, build, and show a session with the server
	@$(VENV)/bin/python packaging/demo.py

test: packages $(TOOLS) build ## set up, build, and run all tests
	@$(VENV)/bin/python packaging/shells/build.py >/dev/null || \
		echo "The tests that need a patched shell that is not there are skipped."
	@$(VENV)/bin/python -m pytest -ra -n $(WORKERS) --dist worksteal $(TESTS)

test-clients: packages $(TOOLS) build ## agents from npm and the SDKs play a script; a table of what each did
	@$(VENV)/bin/python -m pytest -q -n $(WORKERS) --dist worksteal tests/clients

test-machines: ## make run, or TARGET=..., on empty Debian 12 and 13: as root, for root and a user
	@for suite in bookworm trixie; do for who in '' --user; do \
		packaging/empty_machine.sh $$who $$suite $(or $(TARGET),run) || exit; \
	done; done

test-kernels: build ## boot KERNELS=... in qemu, and try there what was built
	@$(VENV)/bin/python -m tests.kernels $(KERNELS)

bench: packages $(TOOLS) build shells ## measure this server and the original from npm, side by side
	@$(VENV)/bin/python -m bench $(BENCH)

soak: $(TOOLS) build ## execs met by SIGKILL at random moments, for SECONDS (600)
	@$(VENV)/bin/python -m tests.soak --seconds $(or $(SECONDS),600)

fuzz: $(TOOLS) ## fuzz all that reads an enemy's words, by coverage, for ten minutes
	@$(VENV)/bin/python -c 'import atheris' 2>/dev/null || \
		$(VENV)/bin/python -m pip install --quiet --editable '.[fuzz]' || true
	@$(VENV)/bin/python -m fuzz $(FUZZ)

check: packages lint test ## all that must hold before a commit: lint, types, tests

lint: $(TOOLS) ## style, format and types
	@failed=0; for tool in "ruff check" "ruff format --check" mypy; do \
		$(VENV)/bin/$$tool || failed=1; \
	done; $(VENV)/bin/python packaging/manual.py --check || failed=1; exit $$failed

clean: ## remove what the targets above made in the tree
	rm -rf build dist $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

# All that the goals take, named or installed at once and before anything is built.
packages:
	@$(SYSTEM) install $(WANTED)

$(READY): pyproject.toml packaging/system.sh $(STALE)
	@$(SYSTEM) install $(WANTED)
	@echo "Setting up $(VENV)"
	@"$$($(SYSTEM) python)" -m venv --clear $(VENV)
	@$(PIP) --editable '.$(EXTRAS)'
	@$(SYSTEM) identity $(VENV)/bin/python >$@
	@$(if $(EXTRAS),touch $(TOOLS))

$(TOOLS): $(READY)
	@[ $@ -nt $(READY) ] || { echo "Installing what the tests and make lint take" && \
		$(PIP) --editable '.[dev]' && touch $@; }

$(EXECUTABLE): $(SOURCES) pyproject.toml $(READY)
	@$(VENV)/bin/python packaging/zipapp.py

$(MANUAL): $(SOURCES) packaging/manual.py $(wildcard docs/reference/*.md) $(READY)
	@$(VENV)/bin/python packaging/manual.py --man $(@D)
