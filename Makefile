# make demo    watch a Transformer learn to translate dates     make test    everything that is proven
# make check   ruff, ruff format, mypy strict                   make bench   throughput beside the peers, on the CPU
# make serve   the server of the translator, on port 5000       make docs    the book, in build/docs, from docs/ and docstrings
# make lock    pin the dependencies with checksums
#
# make test DEPENDENCIES=lowest (or newest): the tests with the lowest (newest) versions that pyproject.toml allows.
# make lock UPGRADE=--upgrade: pin newer versions; without it, only what pyproject.toml demands changes.
PYTHON ?= python3
JOBS ?= 2
BENCH ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
DEPENDENCIES ?= pinned
TORCH_lowest := torch==2.11.0
TORCH_pinned := torch==2.13.0
TORCH_newest := torch==2.13.0
TORCH := $(TORCH_$(DEPENDENCIES))
UV := uv==0.13.8
RESOLUTION_lowest := lowest-direct
RESOLUTION_newest := highest
UPGRADE ?=

.PHONY: demo serve test check format bench docs lock install clean

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

# Without torch, which is installed alone; requirements.in has its own dependencies. Checksums cover all platforms.
RESOLVE = echo "torch; python_version < '3'" | $(BIN)/uv pip compile --quiet --no-annotate --override /dev/stdin \
	pyproject.toml requirements.in
LOCK = $(RESOLVE) --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock" $(UPGRADE)

lock: $(READY)
	$(PIP) $(UV)
	$(LOCK) --extra serve --output-file requirements.txt
	$(LOCK) requirements-dev.in --extra dev --constraint requirements.txt --output-file requirements-dev.txt \
		$$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' requirements.txt)

install: $(READY)

# torch first and alone: nothing after it may pull in another build of it.
$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("regard needs Python 3.11 or later, this is %d.%d; write: make PYTHON=python3.12" % v[:2])'
	@echo "installing into $(VENV): torch first, then the rest (minutes, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) $(TORCH)
	$(PIP) --no-deps --require-hashes -r requirements.txt
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(READY_DEV): $(READY) requirements-dev.txt
ifeq ($(DEPENDENCIES),pinned)
	$(PIP) --no-deps --require-hashes -r requirements-dev.txt
else
	$(PIP) $(UV)
	$(RESOLVE) --python $(BIN)/python --extra dev --resolution $(RESOLUTION_$(DEPENDENCIES)) --output-file $(VENV)/versions.txt
	$(PIP) --no-deps -r $(VENV)/versions.txt
endif
	@touch $@

clean:
	rm -rf $(VENV) build dist
