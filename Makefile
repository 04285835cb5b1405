# Everything a newcomer needs: `make demo`, `make test`. The first call makes a virtual environment and builds.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# Processes of `make test`
JOBS ?= 2
STAMP := $(VENV)/.built
export PIP_DISABLE_PIP_VERSION_CHECK := 1
RUST_SOURCES := $(shell find rust -name '*.rs' -o -name Cargo.toml 2>/dev/null) Cargo.toml pyproject.toml

.PHONY: help demo test test-all check check-rust check-python check-targets bench build wheel gpu-kit status docs clean tools miri tsan

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo 'make test ARGS="tests/ops/nn" runs a part of the Python tests; JOBS=4 sets the processes'

demo: $(STAMP) ## Build, then train LeNet in three styles and a click model
	$(PY) examples/demo.py
	$(PY) examples/click_model.py

# Two phases: files in parallel, then those marked `alone` (tests/conftest.py). Status 5 means that ARGS select none of a phase.
PYTEST := $(PY) -m pytest --durations=15
PARALLEL := -n $(JOBS) --dist loadfile
# Tests with time limits and several processes run once more if they fail: other load on the machine may have delayed them.
ALONE = $(PYTEST) -m "$(1)" $(ARGS); status=$$?; \
	if [ $$status -eq 1 ]; then echo "make: the failed tests run once more"; $(PYTEST) --last-failed -m "$(1)" $(ARGS); status=$$?; fi; \
	test $$status -eq 0 -o $$status -eq 5

test: $(STAMP) $(VENV)/.test ## Rust's and Python's tests
	cargo test -q --no-default-features --workspace
	$(PYTEST) $(PARALLEL) -m "not slow and not gpu and not alone" $(ARGS) || test $$? -eq 5
	$(call ALONE,not slow and not gpu and alone)

test-all: $(STAMP) $(VENV)/.test ## The slow ones too
	cargo test -q --no-default-features --workspace
	$(PYTEST) $(PARALLEL) -m "not alone" $(ARGS) || test $$? -eq 5
	$(call ALONE,alone)

# The two halves run at once: mypy uses one core.
check: $(STAMP) $(VENV)/.check ## Formats, clippy, ruff, mypy
	@$(MAKE) --no-print-directory -j2 check-rust check-python

check-rust: | tools
	cargo fmt --all --check
	cargo clippy -q --workspace --all-targets -- -D warnings

check-python: $(VENV)/.check
	$(VENV)/bin/ruff format --check python tests benches examples tools docs
	$(VENV)/bin/ruff check python tests benches examples tools docs
	$(VENV)/bin/mypy

bench: $(STAMP) $(VENV)/.test ## Benchmarks of kernels and API
	cargo bench --no-default-features --workspace
	$(PY) -m pytest benches --benchmark-only

# make status, make status ARGS=missing
status: $(STAMP) $(VENV)/.test ## Operators and names of Paddle that are there; ARGS=missing lists the rest
	$(PY) tools/status.py $(ARGS)

build: $(STAMP) ## Virtual environment .venv and the extension module

# The site, in docs/_build/index.html. Warnings are errors.
docs: $(STAMP) $(VENV)/.docs ## The site, docs/_build/index.html
	$(PY) -m sphinx -q -W --keep-going -b html docs docs/_build

# A wheel for every Linux since 2014 (LIBC=musl: for musl 1.2, Alpine); ARCH=aarch64 builds for that processor. zig links
# against an old libc; the module's symbols are checked. The wheel is packed twice: zopfli's streams are 3 % shorter.
# Another target's standard library comes from `rustup target add aarch64-unknown-linux-gnu` (or -musl).
ARCH ?= x86_64
LIBC ?= gnu
wheel: export OAR_COMMIT := $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
wheel: $(VENV)/.wheel ## A wheel for Linux since 2014, in dist/; ARCH=aarch64, LIBC=musl
	@rm -rf dist
	@PATH=$(abspath $(VENV))/bin:$$PATH VIRTUAL_ENV=$(abspath $(VENV)) maturin build -q --profile wheel --zig \
		$(if $(filter x86_64-gnu,$(ARCH)-$(LIBC)),,--target $(ARCH)-unknown-linux-$(LIBC)) \
		--compatibility $(if $(filter musl,$(LIBC)),musllinux_1_2,manylinux2014) \
		--compression-level 9 --out dist
	@$(PY) tools/repack_wheel.py dist/*.whl
	@$(PY) tools/wheel_symbols.py dist/*.whl

# Needs the targets' standard libraries: rustup target add aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-apple-darwin
check-targets: ## Type-check for Linux on aarch64, musl and macOS
	@for t in aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-apple-darwin; do \
		RUSTFLAGS="-D warnings" cargo check -q --target $$t --no-default-features --workspace || exit 1; done

# What tools/gpu_day.sh needs on a machine with a GPU and no network, and a dry run of it on the stand-in.
gpu-kit: wheel ## A wheel in .gpu/, for tools/gpu_day.sh on a machine with a GPU
	@rm -rf .gpu && mkdir .gpu && cp dist/*.whl .gpu/
	@for command in check speed profile; do \
		OAR_KIT_DEVICE=shim PYTHON=$(PY) OUT=$(abspath .gpu)/dry-run bash tools/gpu_day.sh $$command || exit 1; done

# Rust's own tests under Miri and ThreadSanitizer: `rustup toolchain install nightly --component miri rust-src`. Slow.
miri: ## Rust's tests of core under Miri
	MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-permissive-provenance" RUSTFLAGS= \
		cargo +nightly miri test -p oar-core --lib --no-default-features

tsan: ## Rust's tests under ThreadSanitizer
	RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu --no-default-features \
		-p oar-core -p oar-kernels --lib -- tensor:: pool --skip the_child_of_a_fork
	RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu --no-default-features \
		-p oar-engine -p oar-net -p oar-ps --lib --tests

tools:
	@command -v cargo >/dev/null || { echo "make: cargo is missing: install Rust 1.89 or newer (rustup.rs)"; exit 1; }
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is missing: install Python 3.11 or newer"; exit 1; }
	@command -v cc >/dev/null || { echo "make: cc is missing, with which Rust links: install gcc or clang"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) -V)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) cannot make virtual environments: install its venv (python3-venv)"; exit 1; }
	@cargo --version | awk '{split($$2, v, "."); if (v[1] < 1 || (v[1] == 1 && v[2] < 89)) {print "make: Rust 1.89 or newer is needed, this is " $$2; exit 1}}'

$(VENV)/.base: | tools
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install -q "maturin>=1.9,<2" numpy scikit-learn
	@touch $@

$(VENV)/.test: $(VENV)/.base
	$(VENV)/bin/pip install -q "pytest>=9" pytest-benchmark pytest-xdist scipy pillow matplotlib
	@$(VENV)/bin/pip install -q nvidia-cuda-nvrtc-cu12 || echo "make: without NVRTC the CUDA kernels are not compiled for a GPU"
	@touch $@

$(VENV)/.docs: $(VENV)/.base
	$(VENV)/bin/pip install -q "sphinx>=8" furo myst-parser sphinx-copybutton sphinx-gallery matplotlib
	@touch $@

$(VENV)/.check: $(VENV)/.base
	$(VENV)/bin/pip install -q "ruff==0.17.*" mypy
	@touch $@

$(VENV)/.wheel: $(VENV)/.base
	$(VENV)/bin/pip install -q "maturin[zig]>=1.16,<2" zopflipy
	@touch $@

$(STAMP): $(VENV)/.base $(RUST_SOURCES)
	@echo "make: building paddle._core (minutes at first)"
	@PATH=$(abspath $(VENV))/bin:$$PATH $(VENV)/bin/pip install -q --no-build-isolation --no-deps -e .
	@touch $@

clean: ## Removes what was built
	rm -rf target dist $(VENV) python/paddle/_core*.so
