# The commands of the project. Each sets up what it needs: Debian packages when run as root (a message
# says which ones otherwise), everything else into the tree. All can be repeated.

# Programs that the tests and the demo run beside ours: the stock SQLite shell and its library,
# setpriv (util-linux) to drop root, strace for figures.
PACKAGES = sqlite3 libsqlite3-0 util-linux
CARGO ?= cargo
MANYHANDS = target/release/manyhands
RESULTS = docs/benchmarks/$(shell date +%Y-%m-%d)

.PHONY: help setup build demo test test-models test-python check bench campaign fuzz doc clean

help:
	@echo "make demo      200 processes write one file, through Manyhands and through stock SQLite"
	@echo "make test      all tests"
	@echo "make check     format, lints, documentation"
	@echo "make bench     the workloads beside stock SQLite, results in $(RESULTS)"
	@echo "make campaign  long reliability runs: kill -9, disk full, stopped processes, stock peers"
	@echo "make fuzz      the queue file's fuzz target for a minute"

setup:
	@command -v $(CARGO) >/dev/null || { echo "cargo is not installed: see https://rustup.rs"; exit 1; }
	@missing=""; for package in $(PACKAGES); do \
	  dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q "ok installed" || missing="$$missing $$package"; \
	done; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ]; then \
	    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing) >/dev/null \
	      || { echo "could not install:$$missing"; exit 1; }; \
	  else \
	    echo "please install:$$missing (for example: sudo apt-get install$$missing)"; exit 1; \
	  fi; \
	fi

build: setup
	$(CARGO) build --release --locked -p manyhands-cli

demo: build
	@$(MANYHANDS) demo

test: setup test-models
	$(CARGO) test --locked
	$(CARGO) test --locked --release -p manyhands-reliability

	$(MAKE) test-python

# The Python package, built into a virtual environment of the tree.
test-python: setup
	@python3 -c "import ensurepip, venv" 2>/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq python3-venv >/dev/null; } \
	  || { echo "please install: python3-venv"; exit 1; }
	[ -x .venv/bin/python ] || python3 -m venv .venv
	.venv/bin/pip install -q --disable-pip-version-check maturin pytest
	cd bindings/python && VIRTUAL_ENV=$(CURDIR)/.venv ../../.venv/bin/maturin develop --release --locked -q
	.venv/bin/python -m pytest -q bindings/python/tests

# The queue's state machine, explored by model checkers, which replace its atomics.
test-models: setup
	RUSTFLAGS="--cfg loom" $(CARGO) test --locked --release --target-dir target/loom -p manyhands-queue --lib model
	RUSTFLAGS="--cfg shuttle" $(CARGO) test --locked --release --target-dir target/shuttle -p manyhands-queue --lib model

check: setup
	python3 docs/benchmarks/readme.py --check
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --workspace --document-private-items

bench: build
	@mkdir -p $(RESULTS)
	for workload in threads counter sizes storm limits; do \
	  $(MANYHANDS) bench $$workload --json $(RESULTS)/$$workload.jsonl | tee $(RESULTS)/$$workload.txt || exit 1; \
	done

campaign: setup
	$(CARGO) build --locked --release -p manyhands-reliability
	target/release/reliability kill --rounds 2000
	target/release/reliability stock
	target/release/reliability stopped
	target/release/reliability full
	target/release/reliability opening --processes 1000
	target/release/reliability memory

fuzz: setup
	fuzz/run.sh queue_file 60

clean:
	$(CARGO) clean
