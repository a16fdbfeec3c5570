# The commands of the README. What is built, and how, stands in CMakeLists.txt and
# CMakePresets.json; this file only calls them, after scripts/install-deps.sh has seen to the tools.
#
#   make           build/cairn and build/libcairn.*
#   make demo      build, then plan a network and say what is shown
#   make check     every test, under both compilers and the sanitizers
#   make bench     steps against PyTorch, which PYTHON must have: bench/pytorch/README.md
#   make install   into PREFIX (/usr/local), below DESTDIR

PREFIX = /usr/local
DESTDIR =
PYTHON = python3
JOBS = $(shell nproc 2>/dev/null || echo 2)

.PHONY: all demo check bench install update-golden clean

all:
	@scripts/install-deps.sh demo
	@cmake --preset release >/dev/null
	@cmake --build build -j $(JOBS)

demo:
	@scripts/install-deps.sh demo
	@cmake --preset release -D CAIRN_TESTS=OFF >/dev/null
	@cmake --build build -j $(JOBS) --target cairn_command >/dev/null
	@scripts/demo.sh build/cairn

check:
	@scripts/install-deps.sh check
	@JOBS=$(JOBS) scripts/check.sh

bench: all
	@$(PYTHON) bench/pytorch/compare.py --cairn build/cairn

install: all
	@DESTDIR=$(DESTDIR) cmake --install build --prefix $(PREFIX)

# Rewrite the expected files of the tests from what the program says now; read the difference.
update-golden: all
	@CAIRN_UPDATE_GOLDEN=1 ctest --test-dir build --output-on-failure -L golden

clean:
	rm -rf build build-dev build-asan build-tsan
