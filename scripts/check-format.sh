#!/bin/sh
# check-format.sh: every C and C++ file must be formatted as clang-format does it, and every page wrapped as
# wrap-docs.py does it.
set -eu
cd "$(dirname "$0")/.."
find cli examples fuzz include src tests bench \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) \
    -print 2>/dev/null | sort | xargs clang-format --dry-run --Werror
find . \( -name 'build*' -o -name '.?*' \) -prune -o -name '*.md' -print | sort | xargs python3 scripts/wrap-docs.py --check
