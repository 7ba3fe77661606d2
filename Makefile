# make demo    watch a Transformer learn to translate dates     make test    everything that is proven
# make check   ruff, ruff format, mypy strict                   make bench   throughput beside the peers, on the CPU
# make serve   the server of the translator, on port 5000       make docs    the book, in build/docs, from docs/ and docstrings
PYTHON ?= python3
JOBS ?= 2
BENCH ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
TORCH := torch==2.13.0

.PHONY: demo serve test check format bench docs install clean

demo: $(READY)
	$(BIN)/regard demo

serve: $(READY)
	$(BIN)/regard serve

test: $(READY_DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile

check: $(READY_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY_DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY_DEV)
	$(BIN)/python -m benchmarks.cpu $(BENCH)

docs: $(READY_DEV)
	$(BIN)/python -m book

install: $(READY)

# torch first and alone: nothing after it may pull in another build of it.
$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("regard needs Python 3.11 or later, this is %d.%d; write: make PYTHON=python3.12" % v[:2])'
	@echo "installing into $(VENV): torch first, then the rest (minutes, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) $(TORCH)
	$(PIP) -r requirements.txt
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(READY_DEV): $(READY) requirements-dev.txt
	$(PIP) -r requirements-dev.txt
	@touch $@

clean:
	rm -rf $(VENV) build dist
