# make demo            the whole story on this machine, in .venv
# make demo PYTHON=P   the same with P's own SGLang, on its GPU
# make serve           the wired example on port 30000
# make test            the tests; make test-slow: all of them; make check: lint and types
VENV := .venv
BASE := $(shell command -v python3.11 || command -v python3)
READY := $(VENV)/.ready
PY := $(or $(PYTHON),$(VENV)/bin/python)
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check -q

.PHONY: setup demo serve test test-slow check theirs

setup: $(READY)

$(READY): pyproject.toml cpu/pyproject.toml cpu/engine.txt cpu/engine-no-deps.txt
	@$(BASE) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "expected Python 3.11 or later, found $(BASE)")'
	@echo "building $(VENV): SGLang and torch, some 6 GB, a few minutes once" >&2
	$(BASE) -m venv $(VENV)
	$(PIP) install -r cpu/engine.txt
	$(PIP) install --no-deps -r cpu/engine-no-deps.txt
	$(PIP) install --no-deps -e cpu
	$(PIP) install -e '.[test]'
	@touch $@

# The CPU engine is ours to install; a person's own SGLang gets draftwire beside it and nothing else.
theirs: $(if $(PYTHON),,$(READY))
	$(if $(PYTHON),$(PYTHON) -m pip -q install -e .)

demo: theirs
	@$(PY) -m draftwire demo

serve: theirs
	@$(PY) -m draftwire serve-example --port 30000

test: $(READY)
	$(VENV)/bin/python -m pytest -m "not slow"

test-slow: $(READY)
	$(VENV)/bin/python -m pytest -m ""

check: $(READY)
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy
