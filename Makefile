# The only entry point: `make help`. Every target does its own set-up (tools/setup), says what it is
# doing, and takes seconds when nothing changed.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run build test check check-headers sanitize fuzz bench soak harness sim clean format
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
# What `make fuzz` gives each target.
FUZZ_SECONDS ?= 60
# Arguments of `make run`, for example: make run ARGS="--seconds 20".
ARGS ?=
# Seeds of `make sim`: SEED=n plays one, otherwise SEEDS of them from 1 up.
SEED ?=
SEEDS ?= 100

# Stack traces of the sanitizers with names and lines.
export ASAN_SYMBOLIZER_PATH := /usr/bin/llvm-symbolizer-19
export UBSAN_OPTIONS := print_stacktrace=1

# ctest labels outside `make test`, because they take longer than a person waits.
LONG_LABELS := soak|harness|bench
CTEST := ctest --output-on-failure --no-tests=error --test-output-size-passed 4096 \
  --test-output-truncation tail

# configure PRESET [OPTIONS]: quiet unless it fails.
configure = log=$$(mktemp) && { cmake --preset $(1) --log-level=NOTICE >$$log 2>&1 || \
  { cat $$log; rm -f $$log; exit 1; }; rm -f $$log; }

say = @printf '\n== %s\n' "$(1)"

help: ## this list
	@printf 'Headgate keeps a fleet of coding agents inside a provider'"'"'s limits.\n\n'
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | \
	  sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1|\2/' | column -t -s '|'
	@printf '\nThe program is build/headgate; `build/headgate --help` goes on from there.\n'

run: ## set up, build, and play the demo: fifty agents with and without a gate, no key needed
	@tools/setup run
	@$(MAKE) build/build.ninja
	$(call say,building headgate (minutes the first time, seconds after))
	@ninja -C build -j$(JOBS) headgate
	$(call say,headgate demo)
	@build/headgate demo $(ARGS)

build: ## set up and build build/headgate
	@tools/setup run
	@$(MAKE) build/build.ninja
	@ninja -C build -j$(JOBS) headgate

test: ## unit tests, recorded vectors and the quick end-to-end tests
	@tools/setup test
	$(call say,building headgate and its tests)
	@$(call configure,release -DHG_TESTS=ON)
	@ninja -C build -j$(JOBS)
	$(call say,running the tests)
	@cd build && status=0; \
	  $(CTEST) -j$(JOBS) -LE '$(LONG_LABELS)' --output-junit results.xml --progress || status=$$?; \
	  cd .. && tools/test-summary build/results.xml --ctest-status $$status

check: ## formatting, house rules, headers alone, clang-tidy on pure modules and changed files
	@tools/setup check
	$(call say,tools/tidy: layers and bans and coroutine shapes)
	@tools/tidy --self-test
	@tools/tidy
	$(call say,clang-format)
	@tools/lint format
	@$(MAKE) check-headers
	$(call say,clang-tidy on the pure modules and on changed files)
	@$(call configure,tidy)
	@tools/lint tidy -j $(JOBS)

check-headers: ## each header of src/ compiles alone
	@tools/setup run
	$(call say,each header compiles alone)
	@tools/lint headers -j $(JOBS)

format: ## rewrite the sources as clang-format wants them
	@tools/setup check
	@tools/lint format --fix

sanitize: ## unit tests under clang-19 with AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/setup check
	$(call say,building with clang-19 and sanitizers into build-san)
	@$(call configure,san -DHG_TESTS=ON)
	@ninja -C build-san -j$(JOBS)
	$(call say,running the unit tests under sanitizers)
	@cd build-san && status=0; \
	  $(CTEST) -j$(JOBS) -L 'unit|vectors' --output-junit results.xml --progress || status=$$?; \
	  cd .. && tools/test-summary build-san/results.xml --ctest-status $$status

fuzz: ## each fuzz target for FUZZ_SECONDS (60): a quarter of an hour; crashes in build-fuzz/
	@tools/setup check
	$(call say,building the fuzz targets with clang-19 into build-fuzz)
	@$(call configure,fuzz)
	@ninja -C build-fuzz -j$(JOBS) fuzz_targets
	@tools/run-fuzz build-fuzz $(FUZZ_SECONDS)

bench: ## benchmarks, beside HAProxy and nginx (five minutes); the results are build/bench.json
	@tools/setup bench
	$(call say,building the benchmarks into build-bench)
	@$(call configure,bench)
	@ninja -C build-bench -j$(JOBS) bench_targets
	@mkdir -p build && tools/run-bench build-bench build/bench.json

soak: ## the tests that take many minutes: fairness over real sockets, long runs of the bounds
	@tools/setup test
	@$(call configure,release -DHG_TESTS=ON)
	@ninja -C build -j$(JOBS)
	@cd build && status=0; \
	  $(CTEST) -L soak --output-junit soak.xml || status=$$?; \
	  cd .. && tools/test-summary build/soak.xml --ctest-status $$status

harness: ## every agent program against every way a provider fails (half an hour): one table
	@tools/setup test
	@$(call configure,release -DHG_TESTS=ON)
	@ninja -C build -j$(JOBS)
	@cd build && status=0; \
	  $(CTEST) -V -L harness --output-junit harness.xml || status=$$?; \
	  cd .. && tools/test-summary build/harness.xml --ctest-status $$status

sim: ## the simulator's random histories: SEED=n for one, SEEDS=n for that many
	@tools/setup test
	@$(call configure,release -DHG_TESTS=ON)
	@ninja -C build -j$(JOBS) sim_test
	@HG_SIM_SEED='$(SEED)' HG_SIM_SEEDS='$(SEEDS)' build/src/sim/sim_test --gtest_filter='*Seed*'

clean: ## remove what was built (downloads stay)
	@rm -rf build build-*

# Configured without tests when their libraries are missing; `make test` switches them on.
build/build.ninja:
	$(call say,configuring)
	@$(call configure,release)
