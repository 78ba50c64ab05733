# make demo       sends real flights through the embedded broker into Spark, and checks the results
# make test       what CI runs: every check and every test, at a small scale
# make test-full  all tests, at full size
# make check      the fast part: format, lint, types, layers, Python unit tests
# make bench      the benchmarks. Also: make wheel, make sdist, make fuzz, make audit, make clean
#
# Most targets first run tools/doctor, which lists what must be installed. Then they install
# everything else inside the tree: .venv (Python), .cache (brokers and other clients for tests and
# benchmarks), target (Rust). A file in .cache/stamps marks what is installed. Make installs it again
# when the files that it depends on have changed.

.NOTPARALLEL:
.DELETE_ON_ERROR:
.SUFFIXES:

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PEERS := .cache/peers
STAMPS := .cache/stamps
CONSTRAINTS := requirements/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYO3_PYTHON := $(abspath $(PY))

# The crates that must follow clippy.toml: no sockets and clocks. A few files of the broker allow
# themselves what they need.
CORES := protocol records security cluster producer consumer broker
# The binding needs an interpreter to link with, so it is tested from Python.
CARGO_TEST := cargo test --workspace --exclude thalweg-python --locked --no-fail-fast
XTASK := cargo run --quiet --locked --package xtask --
# Arguments for pytest, as in: make test PYTEST="-k interop"
PYTEST :=
# Many tests wait for a broker, so six processes keep two cores busy. They keep the order in which
# pytest collects the tests: tests/conftest.py puts the longest first.
PROCESSES := -n 6 --dist loadscope --no-loadscope-reorder
# At full size, four processes need more than 24 GiB. The storm of 50 members runs alone, because it
# measures how long its records wait.
FULL_PROCESSES := $(subst -n 6,-n 3,$(PROCESSES))
FULL_ALONE := tests/integration/groups/test_rebalance_storm.py
# kafka-python's own tests mostly test other code, so they run only in test-full.
FULL_ONLY := tests/kafka_python_suite
SPARKS := spark-4.0 spark-4.1 spark-4.2
# Arguments for the demo and the benchmarks of peers.
DEMO :=
PEERS_BENCH :=
# For make fuzz.
TARGET := decode_request
SECONDS := 60

say = @printf '\n==> %s\n'

.PHONY: help demo test test-full check lint schema bench bench-peers bench-spark bench-criterion \
        build build-release venv peers compat kafka-python-suite kafka late-brokers kerby msk spark-kafka $(SPARKS) wheel \
        sdist fuzz audit clean \
        doctor-build doctor-demo doctor-test

help:
	@sed -n '1,5s/^# //p' Makefile

# ---- The two commands ----------------------------------------------------------------------

demo: doctor-demo $(STAMPS)/extension
	$(say) "the demo"
	@mkdir -p artifacts
	$(PY) -m thalweg demo --output artifacts $(DEMO)

test: doctor-test build kafka kerby msk spark-kafka peers compat lint schema
	$(say) "Rust tests"
	$(CARGO_TEST)
	$(say) "Python tests"
	$(BIN)/pytest $(PROCESSES) --ignore $(FULL_ONLY) $(PYTEST)

test-full: export THALWEG_TEST_SCALE := 50
test-full: doctor-test build kafka kerby msk spark-kafka $(SPARKS) peers compat kafka-python-suite lint schema
	$(say) "Rust tests, full numbers"
	$(CARGO_TEST) --exclude thalweg-simulation
	cargo test --profile storms --package thalweg-simulation --locked --no-fail-fast
	$(say) "Python tests, full numbers"
	$(if $(PYTEST),,$(BIN)/pytest --timeout 7200 $(FULL_ALONE))
	$(BIN)/pytest $(FULL_PROCESSES) --timeout 7200 $(if $(PYTEST),$(PYTEST),$(FULL_ALONE:%=--ignore %))

# Compares the protocol's schema and errors with those in the jar of Kafka's clients.
schema: doctor-test kafka
	$(say) "the protocol against Kafka's own schema"
	$(XTASK) schema --check
	$(XTASK) errors --check
	$(XTASK) java-roundtrip

# ---- The fast part -------------------------------------------------------------------------

check: doctor-build build lint
	$(say) "layers and Python unit tests"
	$(BIN)/pytest tests/layering tests/unit tests/tools $(PYTEST)

# Clocks and sockets are forbidden only in the cores' libraries, because tests need a first `now`.
lint: doctor-build build
	$(say) "Rust: format, lint, generated code"
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings \
	    -A clippy::disallowed_methods -A clippy::disallowed_types
	$(XTASK) generate --check
	cargo clippy --lib --locked $(CORES:%=-p thalweg-%) -- -D warnings
	$(say) "Python: format, lint, types"
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(PY) -m mypy.stubtest thalweg._core --mypy-config-file pyproject.toml

# ---- Benchmarks ----------------------------------------------------------------------------

bench: doctor-test bench-criterion bench-peers bench-spark

# Without the simulation, whose dev-dependencies would enable the planted bugs in what is measured.
bench-criterion: doctor-build
	$(say) "the cores, one by one"
	cargo bench --workspace --exclude thalweg-python --exclude thalweg-simulation --locked

bench-peers: doctor-test build-release kafka peers
	$(say) "the clients, in turn"
	$(PY) -m benches.peers $(PEERS_BENCH)

bench-spark: doctor-test build-release kafka spark-kafka spark-4.0
	$(say) "the Spark source and the JVM connector, in turn"
	$(PY) -m benches.spark

# ---- What is set up ------------------------------------------------------------------------

doctor-build:
	@sh tools/doctor build
doctor-demo:
	@sh tools/doctor demo
doctor-test:
	@sh tools/doctor test

# The packages that the demo needs come first, so that the demo does not wait for the others.
venv: $(STAMPS)/venv
$(STAMPS)/venv-demo: pyproject.toml $(CONSTRAINTS)
	$(say) "Python packages of the demo into $(VENV) (about 600 MB, a minute)"
	@mkdir -p $(STAMPS)
	test -x $(PY) || "$$(sh tools/doctor --print python)" -m venv $(VENV)
	$(PY) -m pip install --quiet --constraint $(CONSTRAINTS) pip
	$(PY) -m pip install --quiet --constraint $(CONSTRAINTS) --group demo
	@touch $@
$(STAMPS)/venv: $(STAMPS)/venv-demo
	$(say) "Python packages for development into $(VENV) (about 100 MB, half a minute)"
	$(PY) -m pip install --quiet --constraint $(CONSTRAINTS) --group dev
	@touch $@

# The demo and the tests use the extension as `cargo test` compiles it: the libraries are compiled
# once for both, and the assertions of our crates are checked. The benchmarks use an optimized one,
# which takes several times as long to build. Only the last one built is in the tree. Folders are
# sources too, because deleting a file changes its folder.
build: venv $(STAMPS)/extension
build-release: venv $(STAMPS)/extension-release
EXTENSION_SOURCES := $(shell find crates -not -path '*/tests*' -not -path '*/benches*' -not -name '*.md')
EXTENSION := $(STAMPS)/extension $(STAMPS)/extension-release
$(EXTENSION): $(STAMPS)/venv-demo Cargo.toml Cargo.lock pyproject.toml $(EXTENSION_SOURCES)
	$(say) "the extension module (the first time takes a few minutes)"
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --locked --group demo \
	    --profile $(if $(findstring release,$@),release,dev)
	@rm -f $(EXTENSION)
	@touch $@

peers: $(STAMPS)/peers
$(STAMPS)/peers: requirements/peers.txt
	$(say) "other clients into $(PEERS)"
	@mkdir -p $(STAMPS)
	test -x $(PEERS)/bin/python || "$$(sh tools/doctor --print python)" -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) pip
	$(PEERS)/bin/python -m pip install --quiet --requirement requirements/peers.txt
	@touch $@

# The versions of kafka-python whose names and signatures tests compare with.
COMPAT := 2.3.0 3.0.12
compat: $(COMPAT:%=$(STAMPS)/kafka-python-%)
$(STAMPS)/kafka-python-%: $(STAMPS)/venv
	$(say) "kafka-python $* into .cache/compat"
	@rm -rf .cache/compat/kafka_python-$*
	$(PY) -m pip install --quiet --no-deps --target .cache/compat/kafka_python-$* kafka-python==$*
	@touch $@

# kafka-python's own tests. Only its source distribution contains them.
SUITE := kafka_python-3.0.12
kafka-python-suite: $(STAMPS)/kafka-python-suite
$(STAMPS)/kafka-python-suite: requirements/kafka-python-suite.txt $(STAMPS)/venv
	$(say) "the tests of $(SUITE) into .cache/compat"
	@rm -rf .cache/compat/$(SUITE)-sdist && mkdir -p .cache/compat/$(SUITE)-sdist
	$(PY) -m pip download --quiet --no-deps --no-binary :all: --require-hashes --requirement $< \
	    --dest .cache/compat/$(SUITE)-sdist
	tar -xzf .cache/compat/$(SUITE)-sdist/$(SUITE).tar.gz -C .cache/compat/$(SUITE)-sdist \
	    --strip-components 1
	@touch $@

COPY_JARS := dependency:copy-dependencies -DincludeScope=runtime
# The archives belong to the Java that is installed now, so it is not a stamp that decides.
kafka: venv $(STAMPS)/kafka-4.3 $(STAMPS)/kafka-3.9
	THALWEG_TEST_LATE_BROKERS= $(PY) -m tests.support.kafka.class_archives
$(STAMPS)/kafka-%: tools/kafka/pom-%.xml
	$(say) "Kafka $* into .cache/kafka-$* (about 120 MB)"
	@mkdir -p $(STAMPS) && rm -rf .cache/kafka-$*
	mvn --quiet --batch-mode --file $< $(COPY_JARS) -DoutputDirectory=$(abspath .cache/kafka-$*/libs)
	@touch $@

# Needed only to find tests that do not wait until a broker has applied a change (CONTRIBUTING.md, "Tests").
late-brokers: build kafka $(STAMPS)/byteman
	$(PY) -m tests.support.kafka.late

WHAT_byteman := Byteman, which makes brokers apply changes late
WHAT_kerby := a Kerberos KDC (Apache Kerby)
WHAT_msk := AWS_MSK_IAM for the Java client
kerby msk: %: $(STAMPS)/%
$(STAMPS)/byteman $(STAMPS)/kerby $(STAMPS)/msk: $(STAMPS)/%: tools/kafka/pom-%.xml
	$(say) "$(WHAT_$*) into .cache/$* (15 MB at most)"
	@mkdir -p $(STAMPS) && rm -rf .cache/$*
	mvn --quiet --batch-mode --file $< $(COPY_JARS) -DoutputDirectory=$(abspath .cache/$*/libs)
	@touch $@

spark-kafka: venv $(STAMPS)/spark-kafka
	$(PY) -m tests.spark.class_archive
SPARK_KAFKA_JARS := spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2
$(STAMPS)/spark-kafka: tools/kafka/pom-spark.xml
	$(say) "Spark's own Kafka connector into .cache/spark-kafka"
	@mkdir -p $(STAMPS) && rm -rf .cache/spark-kafka
	mvn --quiet --batch-mode --file $< $(COPY_JARS) -DincludeArtifactIds=$(SPARK_KAFKA_JARS) \
	    -DoutputDirectory=$(abspath .cache/spark-kafka/jars)
	@touch $@

# Older versions of PySpark, for tests of the source. The connector's streams run only on 4.0.
$(SPARKS): spark-4.%: $(STAMPS)/spark-4.%
$(STAMPS)/spark-4.%: requirements/spark-4.%.txt
	$(say) "PySpark 4.$*.0 into .cache/spark-4.$* (about 800 MB, a minute or two)"
	@mkdir -p $(STAMPS)
	test -x .cache/spark-4.$*/bin/python || \
	    "$$(sh tools/doctor --print python)" -m venv .cache/spark-4.$*
	.cache/spark-4.$*/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) pip
	.cache/spark-4.$*/bin/python -m pip install --quiet --requirement $<
	@touch $@

# ---- What is published, fuzzing, cleaning --------------------------------------------------

wheel: doctor-build venv
	$(say) "a wheel into dist (fat link-time optimisation: several minutes)"
	$(BIN)/maturin build --profile dist --locked --out dist

sdist: doctor-build venv
	$(BIN)/maturin sdist --out dist

# `make test` runs the same functions over their corpus. This target searches for new inputs, with a
# nightly Rust. The targets write what they find to their own folders.
CORPUS = $(firstword $(wildcard crates/*/tests/corpus/$(TARGET)) $(CORPUS_$(TARGET)) \
    crates/protocol/tests/corpus)
CORPUS_private_key := crates/network/tests/keys
CORPUS_key_store := crates/network/tests/stores
CORPUS_FOUND = fuzz/corpus-found/$(TARGET)
fuzz: doctor-build
	@cargo fuzz --version >/dev/null 2>&1 || { \
	    echo "make fuzz needs cargo-fuzz and a nightly Rust:"; \
	    echo "    cargo install cargo-fuzz && rustup toolchain install nightly"; exit 1; }
	@mkdir -p $(CORPUS_FOUND)
	cargo +nightly fuzz run $(TARGET) $(CORPUS_FOUND) $(CORPUS) -- -max_total_time=$(SECONDS)

# Not part of `make test`: it needs the databases of known vulnerabilities, which change every day.
audit: doctor-build $(STAMPS)/audit
	@cargo deny --version >/dev/null 2>&1 || { \
	    echo "make audit needs cargo-deny:"; \
	    echo "    cargo install cargo-deny --locked"; exit 1; }
	$(PY) tools/audit.py .cache/audit/bin/pip-audit
$(STAMPS)/audit: requirements/audit.txt $(STAMPS)/venv-demo
	$(say) "pip-audit into .cache/audit"
	test -x .cache/audit/bin/python || "$$(sh tools/doctor --print python)" -m venv .cache/audit
	.cache/audit/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) pip
	.cache/audit/bin/python -m pip install --quiet --requirement $<
	@touch $@

clean:
	rm -rf .venv .cache target dist build artifacts spark-warehouse metastore_db derby.log
	find python -name '*.so' -delete
