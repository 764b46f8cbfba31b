# Everything here works from a fresh clone with Python >= 3.9 (with venv and headers), make and a C compiler:
# README.md names the packages, `make env` says what is missing.
#   make PYTHON=python3.12 env     another Python
#   make CC=clang demo             another C compiler

PYTHON ?= python3
PREFIX ?= /usr/local
DESTDIR ?=
COMPAT ?= 0
# Of make wheels: Pythons with headers, targets of wheels.py, the folder.
PYTHONS ?= $(PYTHON)
TARGETS ?=
WHEELS ?= dist
# Of make amalgamation: the folder.
AMALGAMATION ?= build/amalgamation
# Relative folders of an installation count from this folder, not from csrc.
from_here = $(if $(filter-out /%,$(firstword $($(1)))),$(CURDIR)/)$($(1))
override PREFIX := $(call from_here,PREFIX)
override DESTDIR := $(call from_here,DESTDIR)
FOLDERS = PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' \
  $(foreach folder,LIBDIR INCLUDEDIR,$(if $($(folder)),$(folder)='$(call from_here,$(folder))'))
MAN1 = $(DESTDIR)$(PREFIX)/share/man/man1

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
# Tests run in a random order, whose seed is printed at the end, on as many workers as there are cores.
WORKERS ?= auto
# pytest keeps what it makes of each test file, which takes a worker 15 seconds.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations=10
RUFF := ruff==0.17.5
MYPY := mypy==2.4.1
CLANG_FORMAT := clang-format==22.1.8
SPHINX := sphinx==8.2.3 myst-parser==4.0.1 furo==2025.12.19

include csrc/sources.mk

# What the compiled parts are made of: a change of any of these rebuilds them.
ENV_SOURCES := pyproject.toml setup.py prerequisites.py csrc/flags.mk csrc/amalgamation.py csrc/installed_sources.py mblob/native/_native_build.py \
  $(wildcard packager/functions/checks.py mblob/texts.py mblob/argument_types.py mblob/device_types.py) \
  $(call some_files_in,csrc/src csrc/include csrc/stand_ins csrc/plugins loader/_call mblob/bytes packager/functions,%.c %.h)

.DEFAULT_GOAL := help
.PHONY: help env demo test test-all lint format check nightly bench docs wheels release install uninstall clean runtime stale quick coverage amalgamation generate

help: ## list the targets
	@while IFS= read -r line; do case $$line in [a-z]*:*'## '*) \
	  printf '  make %-12s %s\n' "$${line%%:*}" "$${line##*## }";; esac; done <$(firstword $(MAKEFILE_LIST))

env: $(VENV)/ready ## .venv with mblob as it is in this tree, and what its tests need
	@:

# The stamp holds the folder it was made in: a virtual environment does not survive being copied. Nor is it
# fresh when the compiled part, which lies in the tree, was removed.
ifneq ($(shell cat $(VENV)/ready 2>/dev/null),$(CURDIR))
$(VENV)/ready: stale
else ifeq ($(wildcard mblob/loader/_lib/libmblob.so*),)
$(VENV)/ready: stale
endif
$(VENV)/ready: $(ENV_SOURCES)
	@command -v $(PYTHON) >/dev/null || { echo 'make env: $(PYTHON) is not installed: see README.md' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 9) and "make env: $(PYTHON) is Python %d.%d; \
	mblob needs 3.9 or later: set PYTHON=" % sys.version_info[:2])'
	@$(PYTHON) prerequisites.py
	@test "$$(cat $@ 2>/dev/null)" = '$(CURDIR)' || { echo "make env: making $(VENV)"; $(PYTHON) -m venv --clear $(VENV); }
	@echo "make env: installing pip (downloads, unless it is there)"
	@$(PIP) install 'pip>=21.3'  # the first that installs an editable package by pyproject.toml
	@echo "make env: installing what mblob and its tests need (downloads, unless it is there)"
	@MBLOB_SAYS=/proc/$$$$/fd/1; export MBLOB_SAYS; $(PIP) install --editable '.[test]'
	@echo "make env: compiling Python files"
	@$(BIN)/python -m compileall -q mblob loader packager  # as an installed package has it
	@printf '%s\n' '$(CURDIR)' > $@
stale:

demo: env runtime ## pack the digits network, run it from Python and from C, compare
	@mkdir -p build
	$(BIN)/mblob-pack build examples/digits/digits.toml -o build/digits.so
	$(CC) -std=c11 -O2 -Icsrc/include examples/digits/classify.c -o build/classify \
	  -Lcsrc/build -Wl,-rpath,'$(CURDIR)/csrc/build' -lmblob
	$(BIN)/mblob-pack inspect build/digits.so --tree
	@$(BIN)/python examples/digits/classify.py build/digits.so build/classify
	@echo "next: examples/digits has the sources; $(BIN)/mblob-pack inspect build/digits.so shows all of it;"
	@echo "      README.md packs a kernel of your own; docs/format.md has every byte"

amalgamation: ## libmblob as one C file, and its header, in AMALGAMATION=build/amalgamation
	@$(PYTHON) csrc/amalgamation.py '$(AMALGAMATION)'

runtime:
	@$(MAKE) --no-print-directory -s -C csrc

test: env ## the quick tests: about 5 minutes on two cores; WORKERS=4 for four
	@$(PYTEST)

quick: env ## for the minute before a commit: tests/unit, but what needs a compiler
	@CC=false $(PYTEST) -m 'not slow and not nightly and not compiles' tests/unit

test-all: env ## the slow tests, which make test leaves out: 25 minutes
	@$(PYTEST) -m 'slow and not nightly'

coverage: ## the lines that the quick tests run, by folder, Python and C, into docs/reliability.md: in a clone of the last commit; half an hour
	@rm -rf build/coverage && git clone -q . build/coverage && $(MAKE) --no-print-directory -C build/coverage env
	@$(PYTHON) tests/measure_coverage.py --tree build/coverage --report build/coverage.jsonl -- -n $(WORKERS) --dist worksteal
	@$(PYTHON) tests/measure_coverage.py --compare build/coverage.jsonl --page docs/reliability.md

PYTHON_SOURCES := mblob packager loader tests examples benchmarks docs prerequisites.py release.py setup.py wheel_parts.py wheels.py
C_SOURCES = $(call files_in,csrc/src csrc/include csrc/stand_ins csrc/plugins packager loader/_call mblob/bytes tests examples \
  benchmarks,%.c %.h %.cpp)

# $(1) prints the file $(2), which keeps its time if it is the same: what includes it is not compiled again
made = @trap 'rm $(2).new' EXIT; $(BIN)/python -m $(1) >$(2).new && { cmp -s $(2).new $(2) || cp $(2).new $(2); }

generate: ## the generated files, from their sources: CONTRIBUTING.md lists them
	$(call made,mblob.format.type_keys,csrc/src/base/type_keys.h)
	$(call made,mblob.texts,csrc/src/base/texts.h)
	$(call made,mblob.argument_types,csrc/src/base/argument_types.h)
	$(call made,mblob.device_types,csrc/src/base/device_types.h)
	$(call made,mblob.binary.relocation_types,csrc/src/elf/relocation_numbers.h)
	$(call made,mblob.unload_safe_functions,csrc/src/core/link/unload_safe_functions.h)
	@$(BIN)/python tests/vectors/generate.py
	@$(BIN)/python -m tests.loader.executors.relax_programs tests/c/exec/relax_programs.bin
	@$(BIN)/python -m tests.loader.executors.vm_programs tests/c/exec/vm_programs.bin
	$(call made,docs.site.manual_page,docs/mblob-pack.1)

lint: $(VENV)/lint-ready ## ruff, clang-format and mypy --strict
	@$(BIN)/ruff check $(PYTHON_SOURCES)
	@$(BIN)/ruff format --quiet --check $(PYTHON_SOURCES) || { echo "not formatted: make format"; false; }
	@$(BIN)/clang-format --dry-run --Werror $(C_SOURCES) || { echo "not formatted: make format"; false; }
	@$(BIN)/mypy --strict -p mblob

format: $(VENV)/lint-ready ## lay out Python by ruff and C by clang-format
	@$(BIN)/ruff format --quiet $(PYTHON_SOURCES)
	@$(BIN)/clang-format -i $(C_SOURCES)

$(VENV)/lint-ready: $(VENV)/ready Makefile
	@$(PIP) install $(RUFF) $(MYPY) $(CLANG_FORMAT) types-cffi tomli
	@touch $@

nightly: env ## hours: exhaustive tests, then demo and test in fresh Debian roots (needs root and mmdebstrap)
	@$(PYTEST) -m nightly
	@MBLOB_TEST_DAMAGE=all $(PYTEST) -m '' tests/e2e/damage/test_c_elf.py
	@tests/fresh_machine

check: ## what CI calls: lint, then test, then test-all
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-all

bench: env ## measure against cp, TVM, linkers, numpy; QUICK=1 two minutes, FOLDER= for 12 GiB, BEFORE= a worktree
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(if $(FOLDER),--folder '$(FOLDER)') $(if $(BEFORE),--before '$(BEFORE)')

docs: $(VENV)/docs-ready ## the documentation as a site: build/docs/index.html
	@$(BIN)/python -B -m docs.site.build build/docs
	@echo build/docs/index.html

$(VENV)/docs-ready: $(VENV)/ready Makefile
	@$(PIP) install $(SPHINX)
	@touch $@

wheels: ## wheels for older systems, musl, aarch64: PYTHONS='python3.11 python3.12' TARGETS='...' WHEELS=dist
	@$(PYTHON) wheels.py $(PYTHONS:%=--python %) $(TARGETS:%=--target %) --output '$(WHEELS)'

release: ## sdist and wheels, checked, installed and tried, in WHEELS=dist; PYTHONS, TARGETS as for wheels
	@$(PYTHON) release.py $(PYTHONS:%=--python %) $(TARGETS:%=--target %) --output '$(WHEELS)'

install: ## headers, libmblob, files for pkg-config and CMake, the manual page: PREFIX=/usr/local DESTDIR= COMPAT=1 adds TVM's names
	@$(MAKE) --no-print-directory -C csrc install COMPAT='$(COMPAT)' PYTHON='$(if $(findstring /,$(PYTHON)),$(abspath $(PYTHON)),$(PYTHON))' $(FOLDERS)
	@install -d '$(MAN1)' && install -m 644 docs/mblob-pack.1 '$(MAN1)'

uninstall: ## remove what make install put there: the same PREFIX, DESTDIR
	@rm -f '$(MAN1)/mblob-pack.1'
	@$(if $(DESTDIR),,$(if $(filter /usr /usr/local,$(PREFIX)),exit;)) cd '$(DESTDIR)$(PREFIX)' 2>/dev/null && \
	  rmdir -p share/man/man1 2>/dev/null || :
	@$(MAKE) --no-print-directory -C csrc uninstall $(FOLDERS)

clean: ## remove everything that the other targets make
	@rm -rf $(VENV) build dist csrc/build loader/_lib mblob/native/_native.c mblob/native/_programs.c *.egg-info .pytest_cache .mypy_cache .ruff_cache
	@rm -f loader/*.so mblob/bytes/*.so
	@rm -rf $(call files_in,mblob packager loader tests examples benchmarks docs,%/__pycache__)
