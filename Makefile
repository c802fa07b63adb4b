# The commands of the project. Each sets up what it needs: Debian packages when run as root (a message
# says which ones otherwise), everything else into the tree. All can be repeated.

# Programs that the tests and the demo run beside ours: the stock SQLite shell and its library,
# setpriv (util-linux) to drop root, file systems for power cuts, strace for figures, a web server, a compiler for the fuzzer.
# objcopy (binutils) makes the drop-in library. A terminal for the live screen.
PACKAGES = sqlite3 libsqlite3-0 util-linux e2fsprogs xfsprogs python3-gunicorn g++ binutils tmux
# Languages whose drivers write through the drop-in library.
DRIVER_PACKAGES = php-cli php-sqlite3 libdbd-sqlite3-perl libsqlite3-tcl ruby ruby-sqlite3
# Ruby, its headers and test library, the gem that ours is compared with, and what generates Rust from the headers.
RUBY_PACKAGES = ruby ruby-dev ruby-minitest ruby-sqlite3 $(if $(wildcard /usr/lib/llvm-*/lib/libclang*.so*),,libclang1)
# Rails with stock SQLite, its server, and what the guide's commands need.
RAILS_PACKAGES = ruby-railties ruby-activerecord ruby-sqlite3 ruby-listen ruby-mocha ruby-builder puma tzdata curl
# Keeps every moment of a database.
LITESTREAM = target/litestream/litestream
CARGO ?= cargo
MANYHANDS = target/release/manyhands
# The benchmark, and what its peers need.
BENCH = target/release/manyhands-bench
PEER_PACKAGES = postgresql
RESULTS = target/bench/$(shell date +%Y-%m-%d)
# The machine whose pictures README shows.
PICTURED = epyc-2-cores
# What campaigns count: one JSON object for each line, and lines are only added.
FIGURES = docs/reliability/campaigns.jsonl
# What they came to, all together; and how long `make campaign` goes on, if not to the end.
CAMPAIGN_PAGE = docs/reliability/campaign.md
CAMPAIGN_SECONDS =
# How long each fuzz target runs.
FUZZ_SECONDS = 60
# How many rounds of random calls of the C interface are compared; each is known by its seed.
ORACLE_ROUNDS = 5000
# Which commit is measured: it stands in each JSON line.
export MANYHANDS_COMMIT := $(or $(MANYHANDS_COMMIT),$(shell git rev-parse --short HEAD 2>/dev/null))
# Processes of the two storms of `make bench`. The targets are about 1000, which take six minutes more.
STORM = 200
STORM_PYTHON = 100
# What `make bench-full` does in each cell. To see whether all of it works, and nothing else:
# make bench-full CELL_SECONDS=0.5 REPEAT=1 ROUNDS=1 JOBS=100 RESULTS=target/try
CELL_SECONDS =
REPEAT = 3
ROUNDS = 20
JOBS = 20000
AT_LENGTH = --repeat $(REPEAT) $(CELL_SECONDS:%=--seconds %)
# For workloads with transactions of several statements.
EVERYBODY = manyhands,manyhands-immediate,stock,stock-deferred,stock-mutex,stock-normal,turso,postgres
# How long each cell of `make bench-rails` takes, and other options of bench/rails/measure.py.
RAILS_SECONDS = 30
RAILS_OPTIONS =
# A folder for Ruby and Rails of a newer Debian, which are then measured (as root); without it this machine's are.
RAILS_CHROOT =
RAILS_RESULTS = target/bench-rails/$(shell date +%Y-%m-%d).jsonl
# Followed by the name of the results and the arguments of the benchmark.
MEASURE = @bench/measure.sh $(RESULTS) $(BENCH)
# The same of a program in Python.
MEASURE_PYTHON = @bench/measure.sh $(RESULTS) .venv/bin/python
# The same of memory, which another program counts; nothing is timed. MEMORY_WRITES take half a minute at most.
MEMORY_WRITES = 30000
MEASURE_MEMORY = @rm -f $(RESULTS)/memory.jsonl; \
	target/release/reliability memory --writes $(MEMORY_WRITES) --json $(RESULTS)/memory.jsonl || echo memory >> $(RESULTS)/failed
# Debian packages: which of them are missing, and their installation.
find-missing = missing=""; for package in $(1); do \
	  dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q "ok installed" || missing="$$missing $$package"; \
	done
install-missing = (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing) >/dev/null
# Installs what is missing of these packages, or says what to install.
require = $(call find-missing,$(1)); \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ]; then \
	    $(install-missing) || { echo "could not install:$$missing"; exit 1; }; \
	  else \
	    echo "please install:$$missing (for example: sudo apt-get install$$missing)"; exit 1; \
	  fi; \
	fi

.PHONY: help setup build build-reliability build-bench dropin c-writer driver-packages demo test test-dropin test-c-writers test-models test-python test-ruby suites suites-dropin suites-ruby wheel check check-python check-report check-bench develop-python develop-ruby ruby-packages check-ruby test-rails suites-rails rails-packages peer-packages bench bench-full bench-drivers bench-rails keep-rails finish report prepare-report keep campaign fuzz doc clean

help:
	@echo "make demo      200 processes write one file, through Manyhands and through stock SQLite"
	@echo "make test      all tests"
	@echo "make dropin    the library that takes the place of libsqlite3, in target/dropin"
	@echo "make suites    test suites of Python, SQLAlchemy, Django and others, beside stock SQLite: half an hour"
	@echo "make suites-rails  ActiveRecord's tests on the adapter for Rails, and backups with Litestream: ten minutes"
	@echo "make suites-dropin  test suites of drivers in other languages, on the drop-in library: an hour"
	@echo "make suites-ruby  the tests of the Ruby gem sqlite3, in a chroot of a newer Debian: ten minutes"
	@echo "make check     format, lints, types, documentation"
	@echo "make wheel     the Python package, in target/wheels"
	@echo "make bench     the workloads beside stock SQLite, Turso and PostgreSQL: less than 15 minutes after the first build,"
	@echo "               which takes as long again; results in $(RESULTS)"
	@echo "make bench-full  all of them at length: hours; CELL_SECONDS=0.5 REPEAT=1 ROUNDS=1 JOBS=100 only shows that it works"
	@echo "make bench-rails  a site on Rails, beside stock SQLite: half an hour with RAILS_SECONDS=2"
	@echo "make check-bench  lints and tests of the peers: Turso is built for them, which takes a while"
	@echo "make report    a page with pictures of the results of make bench; make keep MACHINE=... puts them into docs/benchmarks"
	@echo "make campaign  all reliability campaigns in slices, days in all: kill -9, crash images, failing calls, fuzzing;"
	@echo "               goes on where it was stopped, CAMPAIGN_SECONDS=3600 for an hour; writes $(CAMPAIGN_PAGE)"
	@echo "make fuzz      all fuzz targets, a minute each, two at a time; FUZZ_SECONDS=600 for longer"

setup:
	@command -v $(CARGO) >/dev/null || { echo "cargo is not installed: see https://rustup.rs"; exit 1; }
	@$(call require,$(PACKAGES))

build: setup
	$(CARGO) build --release --locked -p manyhands-cli

build-reliability: setup
	$(CARGO) build --release --locked -p manyhands-reliability

# What cannot be had is left out of the measurements, which say so.
build-bench: peer-packages
	@$(CARGO) build --release --locked -p manyhands-bench --features peers \
	  || { echo "left out, since they could not be built: Turso and PostgreSQL"; $(CARGO) build --release --locked -p manyhands-bench; }

peer-packages: setup
	@$(call find-missing,$(PEER_PACKAGES)); \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ]; then \
	    $(install-missing) \
	      || echo "left out, since it could not be installed:$$missing"; \
	  else \
	    echo "left out, since it is not installed:$$missing (to have it: sudo apt-get install$$missing)"; \
	  fi; \
	fi

# SQLite's own C interface: a library for every language, and plain SQLite of the same version for its tests.
dropin: setup
	crates/manyhands-c/build.sh

# A writer in C, and a library for it that can die at its crash points and have faults planted.
c-writer: dropin
	crates/manyhands-c/build.sh campaign
	reliability/c/build.sh target/dropin-campaign

demo: build
	@$(MANYHANDS) demo

test: setup test-models dropin
	$(CARGO) test --locked --features manyhands/tokio
	$(MAKE) test-dropin
	$(CARGO) test --locked --release -p manyhands-reliability -- --test-threads 4
	$(MAKE) test-c-writers
	SEED=1 $(MAKE) fuzz
	$(MAKE) test-python
	$(MAKE) test-ruby
	$(MAKE) test-rails

driver-packages: setup
	@$(call require,$(DRIVER_PACKAGES))

# Stories of the C interface, the same random calls on the library and on plain SQLite, and unmodified drivers.
test-dropin: dropin driver-packages develop-python
	crates/manyhands-c/tests/run.sh
	$(CARGO) build --locked --release -p manyhands-c-oracle
	target/release/capi-oracle --ours target/dropin/lib/libsqlite3.so.0 --stock target/dropin/stock/libsqlite3.so.0 --seed 1 \
		--rounds $(ORACLE_ROUNDS) --known crates/manyhands-c-oracle/known_differences.txt
	.venv/bin/python -m pytest -q crates/manyhands-c/drivers crates/manyhands-c/loader

# Campaigns with every second writer a C program over the library that users get.
C_WRITER = --writer target/dropin/writer
test-c-writers: dropin build-reliability
	reliability/c/build.sh target/dropin
	target/release/reliability kill --rounds 6 --deaths 40 --point random $(C_WRITER)
	target/release/reliability black-box --transactions 25000 $(C_WRITER)
	target/release/reliability environment --case fork --rounds 2 $(C_WRITER)
	target/release/reliability full --rounds 1 --pages 6 --byte-step 301 $(C_WRITER)

# The Python package, built into a virtual environment of the tree.
develop-python: setup
	@python3 -c "import ensurepip, venv" 2>/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq python3-venv >/dev/null; } \
	  || { echo "please install: python3-venv"; exit 1; }
	[ -x .venv/bin/python ] || python3 -m venv .venv
	.venv/bin/pip install -q --disable-pip-version-check maturin -r bindings/python/tests/requirements.txt
	cd bindings/python && VIRTUAL_ENV=$(CURDIR)/.venv ../../.venv/bin/maturin develop --release --locked -q

test-python: develop-python
	.venv/bin/python -m pytest -q bindings/python/tests

ruby-packages: setup
	@$(call require,$(RUBY_PACKAGES))

# The Ruby gem, built in the tree.
develop-ruby: ruby-packages
	CARGO="$(CARGO)" bindings/ruby/build.sh

test-ruby: develop-ruby
	cd bindings/ruby && ruby -w -Itest -e 'Dir["test/test_*.rb"].sort.each { |file| require "./#{file}" }'

rails-packages: ruby-packages
	@$(call require,$(RAILS_PACKAGES))

# The adapter for ActiveRecord, the example as a site whose processes are killed, and the guide, with Debian's Rails.
test-rails: develop-ruby rails-packages
	cd bindings/ruby && ruby -W0 -Ilib -e 'Dir["test/rails/*_test.rb"].sort.each { |file| require "./#{file}" }'

# ActiveRecord's own tests, stock SQLite beside them, and backups with Litestream, which Go builds: ten minutes.
suites-rails: develop-ruby rails-packages
	@command -v go >/dev/null || { echo "go is not installed: it builds Litestream"; exit 1; }
	[ -x $(LITESTREAM) ] || GOBIN=$(CURDIR)/$(dir $(LITESTREAM)) go install github.com/benbjohnson/litestream/cmd/litestream@v0.5.18
	cd bindings/ruby && LITESTREAM=$(CURDIR)/$(LITESTREAM) ruby -W0 -Ilib -e 'ARGV.each { |file| require "./#{file}" }' suites/backup_test.rb test/rails/guide_test.rb
	python3 bindings/ruby/suites/activerecord.py

# Format, lints, Ruby's warnings.
check-ruby: ruby-packages
	cd bindings/ruby && $(CARGO) fmt -- --check
	CARGO="$(CARGO)" bindings/ruby/build.sh clippy
	CARGO="$(CARGO)" bindings/ruby/build.sh test
	cd bindings/ruby && find lib test -name '*.rb' | sort | xargs -n 1 ruby -wc 2>&1 | { ! grep -v '^Syntax OK$$'; }

# Format, lints, types; the stub is compared with the built module.
check-python: develop-python
	.venv/bin/pip install -q --disable-pip-version-check mypy ruff typing_extensions
	cd bindings/python && $(CARGO) fmt -- --check
	cd bindings/python && $(CARGO) clippy --locked --all-targets -- -D warnings
	.venv/bin/ruff check bindings/python
	cd bindings/python && ../../.venv/bin/python -m mypy python/manyhands
	cd bindings/python && ../../.venv/bin/python -m mypy.stubtest manyhands._manyhands

# What others test: fetched into .suites, run with stock SQLite and with manyhands. SUITES="django aiosqlite" chooses.
suites: setup
	cd bindings/python/suites && python3 run.py $(SUITES)

# The test suites of drivers in other languages, beside plain SQLite; and the recipes of docs/languages.md that fetch something.
suites-dropin: dropin driver-packages develop-python
	cd crates/manyhands-c/drivers && ../../../.venv/bin/python suites.py
	MANYHANDS_RECIPES=all .venv/bin/python -m pytest -q crates/manyhands-c/loader

# The tests of the gem sqlite3 beside that gem, and our own with a newer Ruby, in a chroot of a newer Debian.
suites-ruby: setup
	@command -v mmdebstrap >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq mmdebstrap >/dev/null; } \
	  || { echo "please install: mmdebstrap"; exit 1; }
	python3 bindings/ruby/suites/run.py

# One wheel for every CPython from 3.9 on, in target/wheels.
wheel: setup
	[ -x .venv/bin/python ] || python3 -m venv .venv
	.venv/bin/pip install -q --disable-pip-version-check maturin
	cd bindings/python && ../../.venv/bin/maturin build --release --locked --out ../../target/wheels

# The queue's state machine, explored by model checkers, which replace its atomics.
test-models: setup
	RUSTFLAGS="--cfg loom" $(CARGO) test --locked --release --target-dir target/loom -p manyhands-queue --lib model
	RUSTFLAGS="--cfg shuttle" $(CARGO) test --locked --release --target-dir target/shuttle -p manyhands-queue --lib model

check: setup
	python3 docs/check.py
	python3 docs/benchmarks/readme.py --check
	python3 bench/rails/page.py --check
	python3 crates/manyhands/layers.py
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked -p manyhands --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --workspace --exclude manyhands-bench --all-features --document-private-items
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps -p manyhands-bench --document-private-items
	$(MAKE) check-python
	$(MAKE) check-ruby
	$(MAKE) check-report

# What the targets are about, three times each, in less than 15 minutes: `bench-full` has all engines everywhere, and
# takes its time. Engines that are not named are those that the workload is about.
bench: build-bench build-reliability develop-python
	@mkdir -p $(RESULTS); rm -f $(RESULTS)/failed
	$(MEASURE) threads threads --seconds 0.8 --engines manyhands,stock,stock-mutex,stock-mutex-normal,turso,postgres
	$(MEASURE) threads-alone threads --threads 1 --seconds 0.4 --repeat 25 --engines manyhands,stock
	$(MEASURE) threads-normal threads --threads 1 --seconds 0.4 --repeat 25 --engines manyhands-normal,stock-normal
	$(MEASURE) threads-at-a-rate threads --threads 64 --rate 4000 --seconds 1.5 --engines manyhands,stock
	$(MEASURE) threads-slow-disk threads --threads 1,64 --sync-us 1000 --seconds 0.8 --engines manyhands,stock
	$(MEASURE) clients clients --processes 1,8 --clients 1000 --seconds 1 --engines manyhands,stock-normal,postgres
	$(MEASURE) claim claim --threads 64 --processes 8 --jobs 2000 --engines manyhands,stock,postgres-read-committed
	$(MEASURE) counter counter --threads 1,64 --seconds 0.6 --engines manyhands,stock,stock-mutex,turso,postgres-read-committed
	$(MEASURE) counter-in-transaction counter --in-transaction --threads 1,64 --seconds 1 --repeat 5 --engines manyhands,stock
	$(MEASURE) think think --threads 8,16 --think-us 0,1000 --seconds 0.6 --engines manyhands,stock,turso,postgres,postgres-pipelined
	$(MEASURE) transfer transfer --seconds 0.6 --engines manyhands,stock,stock-deferred,turso,postgres
	$(MEASURE) orm orm --seconds 0.6 --engines manyhands,stock,stock-deferred,turso,postgres
	$(MEASURE) orm-slow-disk orm --sync-us 1000 --seconds 0.6 --engines manyhands,manyhands-immediate,stock
	$(MEASURE) mixed mixed --seconds 1 --long-seconds 2 --engines manyhands,stock
	$(MEASURE) endless-reader endless-reader --seconds 2 --engines manyhands,manyhands-wal-limit,stock,turso
	$(MEASURE) web web --clients 4,16 --seconds 0.7 --python .venv/bin/python --engines manyhands,stock
	$(MEASURE) sizes sizes --seconds 1 --repeat 5 --engines manyhands,stock
	$(MEASURE) storm storm --processes $(STORM) --engines manyhands,stock
	$(MEASURE) storm-python storm --client python --python .venv/bin/python --processes $(STORM_PYTHON) --engines manyhands,stock
	$(MEASURE_PYTHON) shapes bench/shapes.py --seconds 0.4
	$(MEASURE_PYTHON) python-overhead bench/python_overhead.py --repeat 5
	$(MEASURE_MEMORY)
	$(MEASURE) limits limits --seconds 0.5
	$(MAKE) finish

bench-full: build-bench build-reliability develop-python
	@mkdir -p $(RESULTS); rm -f $(RESULTS)/failed
	$(MEASURE) threads threads $(AT_LENGTH) --engines manyhands,stock,stock-mutex,stock-normal,stock-mutex-normal,turso,postgres
	$(MEASURE) threads-alone threads --threads 1 --repeat 25 $(CELL_SECONDS:%=--seconds %) --engines manyhands,stock
	$(MEASURE) threads-normal threads $(AT_LENGTH) --engines manyhands-normal,stock-normal,stock-mutex-normal
	$(MEASURE) threads-at-a-rate threads --threads 64 --rate 4000 $(AT_LENGTH)
	$(MEASURE) threads-slow-disk threads --threads 1,64 --sync-us 1000 $(AT_LENGTH) --engines manyhands,stock,stock-mutex,turso,postgres
	$(MEASURE) clients clients $(AT_LENGTH) --engines manyhands,stock,stock-normal,postgres
	$(MEASURE) claim claim --jobs $(JOBS) --repeat $(REPEAT)
	$(MEASURE) counter counter $(AT_LENGTH) --engines manyhands,stock,stock-mutex,stock-normal,turso,postgres,postgres-read-committed
	$(MEASURE) counter-in-transaction counter --in-transaction $(AT_LENGTH) --engines $(EVERYBODY),postgres-read-committed
	$(MEASURE) think think $(AT_LENGTH) --engines $(EVERYBODY),postgres-pipelined
	$(MEASURE) transfer transfer $(AT_LENGTH) --engines $(EVERYBODY)
	$(MEASURE) orm orm $(AT_LENGTH) --engines $(EVERYBODY)
	$(MEASURE) orm-slow-disk orm --sync-us 1000 $(AT_LENGTH) --engines $(EVERYBODY)
	$(MEASURE) mixed mixed --repeat $(REPEAT) $(CELL_SECONDS:%=--long-seconds %)
	$(MEASURE) endless-reader endless-reader $(AT_LENGTH)
	$(MEASURE) web web --python .venv/bin/python $(AT_LENGTH)
	$(MEASURE) sizes sizes $(AT_LENGTH) --engines manyhands,manyhands-normal,stock,stock-normal,turso,postgres
	$(MEASURE) storm storm --processes 50,200,500,1000 --rounds $(ROUNDS) --repeat $(REPEAT) --engines manyhands,stock,stock-normal,postgres
	$(MEASURE) storm-python storm --client python --python .venv/bin/python --processes 50,200,500,1000 --rounds $(ROUNDS) \
		--repeat $(REPEAT) --engines manyhands,stock,stock-normal
	$(MEASURE_PYTHON) shapes bench/shapes.py $(AT_LENGTH)
	$(MEASURE_PYTHON) python-overhead bench/python_overhead.py --repeat $(REPEAT)
	$(MEASURE_MEMORY)
	$(MEASURE) limits limits $(AT_LENGTH)
	$(MAKE) bench-drivers
	$(MAKE) finish

# Drivers of other languages with the library in the place of libsqlite3, and without it: a quarter of an hour. Node.js, Go and Java take part
# where they are installed.
bench-drivers: dropin driver-packages
	@mkdir -p $(RESULTS)
	@bench/measure.sh $(RESULTS) python3 drivers crates/manyhands-c/drivers/measure.py --repeat $(REPEAT) $(CELL_SECONDS:%=--seconds %)

# The talk's tables: a site under Puma on Manyhands and on stock SQLite. Three hours with 30 s for each cell; RAILS_SECONDS=2 for half an hour.
bench-rails: develop-ruby rails-packages
	$(CARGO) build --release --locked -p manyhands-http-load
	$(if $(RAILS_CHROOT),bindings/ruby/suites/chroot.sh $(RAILS_CHROOT))
	@mkdir -p $(dir $(RAILS_RESULTS))
	python3 bench/rails/measure.py $(RAILS_RESULTS) --seconds $(RAILS_SECONDS) $(RAILS_CHROOT:%=--chroot %) $(RAILS_OPTIONS)

# What it measured becomes the page docs/benchmarks/rails.md.
keep-rails:
	cp $(RAILS_RESULTS) docs/benchmarks/rails/lines.jsonl
	python3 bench/rails/page.py

# The report, and what has no figure because its check failed.
finish: report
	@[ ! -s $(RESULTS)/failed ] || { echo "checks have failed, see the tables:" $$(cat $(RESULTS)/failed); exit 1; }

# One page with pictures of the newest results, and the pictures beside it.
report: prepare-report
	.venv/bin/python bench/report $(RESULTS)

prepare-report:
	[ -x .venv/bin/python ] || python3 -m venv .venv
	.venv/bin/pip install -q --disable-pip-version-check -r bench/report/requirements.txt

# The results become those of docs/benchmarks and of README: make keep MACHINE=epyc-2-cores
keep: prepare-report
	@[ -n "$(MACHINE)" ] || { echo "which machine? make keep MACHINE=$(PICTURED)"; exit 1; }
	python3 docs/benchmarks/keep.py $(RESULTS) $(MACHINE)
	.venv/bin/python bench/report docs/benchmarks/$(PICTURED).jsonl --into target/pictures
	for name in storm-histogram threads-rates threads-waits; do \
	  cp target/pictures/$$name.svg target/pictures/$$name-dark.svg docs/benchmarks/pictures/; \
	done
	python3 docs/benchmarks/readme.py

# Every campaign in slices, until each has the number of the long column. What is there from earlier calls counts; what
# ends this one, by Ctrl-C or otherwise, costs one slice. Fails when there is a finding of this commit.
campaign: setup c-writer
	$(CARGO) build --locked --release -p manyhands-reliability -p manyhands-c-oracle
	python3 reliability/campaign.py --results $(FIGURES) --page $(CAMPAIGN_PAGE) $(CAMPAIGN_SECONDS:%=--seconds %)

# The peers' lints and tests. Not in release mode: Turso is built once more for it, but each of the programs here would be optimized as a whole,
# with Turso in it, whenever a line changes.
check-bench: peer-packages
	$(CARGO) clippy --locked -p manyhands-bench --all-targets --features peers -- -D warnings
	$(CARGO) test --locked -p manyhands-bench --features peers

# Python's part of the measurements and campaigns: lints, types, tests.
check-report: develop-python
	.venv/bin/pip install -q --disable-pip-version-check mypy pytest ruff -r bench/report/requirements.txt
	.venv/bin/ruff check --config bench/report/pyproject.toml bench docs/benchmarks reliability crates/manyhands-c bindings/ruby
	cd bench/report && ../../.venv/bin/python -m mypy . ../python_overhead.py ../top_overhead.py ../shapes.py ../test_shapes.py ../../reliability/campaign.py
	cd bench/rails && ../../.venv/bin/python -m mypy --config-file ../report/pyproject.toml . && ../../.venv/bin/python -m pytest -q .
	cd bench/report && ../../.venv/bin/python -m pytest -q . ../test_shapes.py

# With whatever compiler there is, two at a time. SANITIZER=address looks into each access to memory.
fuzz: setup
	fuzz/run.sh all $(FUZZ_SECONDS)

clean:
	$(CARGO) clean
