# The commands of the README. CMakeLists.txt and CMakePresets.json define what is built; this file
# only calls them. `make`, `make install` and `make bench` install nothing: they name what is
# missing. The others install it with apt (scripts/install-deps.sh).
#
#   make           build/cairn and build/libcairn.*
#   make demo      build, then train a network twice and explain the results
#   make check     every test, under both compilers and the sanitizers
#   make test      the tests of the release build only
#   make deps      install what `make` needs
#   make install   into PREFIX (/usr/local), below DESTDIR
#   make package   build/cairn_VERSION_ARCHITECTURE.deb
#   make coverage  how much of src/ the tests reach
#   make wheel     build/dist/cairn_torch-VERSION-*.whl, the package for PyTorch: docs/pytorch.md
#   make wheels    the same for glibc 2.28 and newer, on x86-64 and aarch64
#   make check-pytorch  its tests, with the torch that PYTHON has
#   make check-pytorch-versions  the same with the oldest torch and with the newest, which it installs
#   make bench     steps against PyTorch, which PYTHON must have: bench/pytorch/README.md

PREFIX = /usr/local
DESTDIR =
PYTHON = python3
JOBS = $(shell nproc 2>/dev/null || echo 2)

.PHONY: all demo demo-gpt check test deps install package coverage wheel wheels check-pytorch check-pytorch-versions bench update-abi update-golden clean

all:
	@scripts/install-deps.sh --dry-run build
	@cmake --preset release -D CAIRN_TESTS=OFF >/dev/null
	@cmake --build build -j $(JOBS)

demo:
	@scripts/install-deps.sh build
	@cmake --preset release -D CAIRN_TESTS=OFF >/dev/null
	@echo "Compiling; this takes a few minutes the first time."
	@cmake --build build -j $(JOBS) --target cairn_command
	@scripts/demo.sh build/cairn

demo-gpt:
	@scripts/install-deps.sh build
	@cmake --preset release -D CAIRN_TESTS=OFF >/dev/null
	@echo "Compiling; this takes a few minutes the first time."
	@cmake --build build -j $(JOBS) --target cairn_command
	@scripts/demo-gpt.sh build/cairn

check:
	@scripts/install-deps.sh check
	@JOBS=$(JOBS) scripts/check.sh

test:
	@scripts/install-deps.sh test
	@JOBS=$(JOBS) scripts/check.sh release

deps:
	@scripts/install-deps.sh build

install: all
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

package:
	@scripts/install-deps.sh package
	@JOBS=$(JOBS) scripts/package.sh

coverage:
	@scripts/install-deps.sh coverage
	@JOBS=$(JOBS) scripts/coverage.sh

wheel:
	@scripts/install-deps.sh --dry-run build
	@cmake --preset release >/dev/null
	@cmake --build build -j $(JOBS) --target cairn_plan >/dev/null
	@python3 python/make_wheel.py build build/dist

wheels:
	@scripts/install-deps.sh wheels
	@JOBS=$(JOBS) scripts/wheels.sh

check-pytorch: wheel
	@JOBS=$(JOBS) scripts/check-pytorch.sh $(PYTHON) build

check-pytorch-versions: wheel
	@JOBS=$(JOBS) scripts/check-pytorch-versions.sh build

bench: all
	@$(PYTHON) bench/pytorch/compare.py --cairn build/cairn

# Take what the library exports now as that of the coming release. Read the difference.
update-abi: all
	@tests/abi/test_abi.sh . build/libcairn.so UPDATE

# Rewrite the expected files of the tests from what the program prints now. Read the difference.
update-golden:
	@scripts/install-deps.sh --dry-run test
	@cmake --preset release >/dev/null
	@cmake --build build -j $(JOBS)
	@CAIRN_UPDATE_GOLDEN=1 ctest --test-dir build --output-on-failure -L golden

clean:
	rm -rf build build-dev build-asan build-tsan build-coverage build-package
