# make demo    watch a Transformer learn to translate dates     make test    everything that is proven
# make check   ruff, ruff format, mypy strict                   make bench   throughput beside the peers, CPU
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TORCH := torch==2.13.0
JOBS ?= 2

.PHONY: demo test check format bench install clean

demo: $(READY)
	$(BIN)/regard demo

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python benchmarks/cpu.py

install: $(READY)

# torch first and alone: nothing after it may pull in another build of it.
$(READY): requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("regard needs Python 3.11 or later, this is " + sys.version.split()[0] + \
	  "; write: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf $(VENV) build dist
