# `make demo` and `make test` are all that a fresh machine needs.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := setup.py pyproject.toml $(wildcard csrc/*)
EXTENSION := scar_gpu/_C.abi3.so

TRITON_VERSIONS := 3.6.0 3.8.0

.PHONY: demo test test-cpu test-triton test-triton-versions $(TRITON_VERSIONS:%=test-triton-%) \
  lint types sanitize bench bench-quick peers clean

# torch comes first, so that the package builds against it and nothing fetches another build.
$(VENV)/torch: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip setuptools wheel
	$(PIP) torch numpy
	touch $@

$(VENV)/%: $(VENV)/torch pyproject.toml
	$(PIP) --no-build-isolation --editable ".[$(subst -,$(comma),$*)]"
	touch $@
comma := ,

$(EXTENSION): $(VENV)/torch $(SOURCES)
	$(BIN)/python setup.py --quiet build_ext --inplace
	touch $@

demo: $(VENV)/text-io-cli $(EXTENSION)
	$(BIN)/scar-gpu demo

test: test-cpu test-triton

test-cpu: $(VENV)/text-io-cli-hybrid-faiss-dev $(EXTENSION)
	$(BIN)/python -m pytest -q

# The same tests with the Triton kernels, interpreted on the CPU.
test-triton: $(VENV)/text-io-cli-hybrid-faiss-dev $(EXTENSION)
	$(BIN)/python -m pytest -q --backend triton --ignore tests/text --ignore tests/cli \
	  --ignore tests/storage --ignore tests/kernels --ignore tests/evaluation \
	  --ignore tests/test_readme.py

# What other compilers make of the kernels, each in an environment of its own.
test-triton-versions: $(TRITON_VERSIONS:%=test-triton-%)

$(TRITON_VERSIONS:%=test-triton-%): test-triton-%: build/triton-%/installed $(EXTENSION)
	build/triton-$*/bin/python -m pytest -q tests/test_compile_only.py tests/kernels

build/triton-%/installed: constraints.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	sed 's/^triton==.*/triton==$*/' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint $(@D)/constraints.txt torch numpy setuptools triton pytest hypothesis
	touch $@

lint: $(VENV)/text-io-cli-hybrid-faiss-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror csrc/*.cpp csrc/*.h csrc/*.inl

types: $(VENV)/text-io-cli-hybrid-faiss-dev
	$(BIN)/mypy

# The C++ kernels under AddressSanitizer and UndefinedBehaviorSanitizer, in a build of their own.
sanitize: $(VENV)/text-io-cli-hybrid-faiss-dev
	rm -rf build/sanitize
	mkdir -p build/sanitize
	cp -r scar_gpu csrc tests setup.py pyproject.toml README.md LICENSE build/sanitize
	cd build/sanitize && SCAR_GPU_SANITIZE=1 ../../$(BIN)/python setup.py --quiet build_ext --inplace --force
	cd build/sanitize && LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 OPENBLAS_NUM_THREADS=1 \
	  ../../$(BIN)/python -m pytest -q -m "not slow" $(SANITIZED)
SANITIZED := $(addprefix tests/test_,row_scale.py continuity.py neighbor_scores.py expand.py \
  scar_expand.py window_expand.py spans.py search.py search_filter.py search_expand.py \
  corpus_masks.py merge_hits.py large_index.py errors.py \
  rank_fusion.py rank_fusion_calls.py parameter_sweep.py)

# Smaller sizes, in minutes; the targets are those of the full ones.
bench-quick: $(VENV)/text-io-cli-hybrid-faiss-dev $(EXTENSION)
	$(BIN)/python -m pytest -q benchmarks --size quick

# What the benchmarks compare with has an environment of its own.
$(PEERS)/ready: constraints.txt benchmarks/peers/requirements.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --requirement benchmarks/peers/requirements.txt \
	  torch numpy setuptools wheel ninja
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --no-build-isolation --editable ".[io,hybrid,faiss,dev]"
	touch $@

# Parity with the other systems.
peers: $(PEERS)/ready $(EXTENSION)
	$(PEERS)/bin/python -m pytest -q tests/peers

# Measures, and writes the README's table and docs/performance.md.
bench: $(PEERS)/ready $(EXTENSION)
	$(PEERS)/bin/python -m pytest -q benchmarks --report benchmarks/results/cpu.json
	$(PEERS)/bin/python benchmarks/table.py benchmarks/results/cpu.json README.md
	$(PEERS)/bin/python benchmarks/table.py benchmarks/results/cpu.json docs/performance.md

clean:
	rm -rf $(VENV) $(PEERS) build $(EXTENSION)
