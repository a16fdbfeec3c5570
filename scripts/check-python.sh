#!/bin/sh
# check-python.sh BUILD: ruff and mypy find nothing in the Python sources (rules: pyproject.toml).
# Both come as wheels that are installed in the build folder. Exits with 77 if that is not possible.
set -eu
tools=$1/python-tools
if [ ! -x "$tools/bin/mypy" ] && ! { python3 -m venv "$tools" &&
    "$tools/bin/pip" install --quiet --disable-pip-version-check ruff==0.17.4 mypy==2.4.1; } >/dev/null 2>&1; then
    rm -rf "$tools"
    echo "SKIPPED: the Python sources were not checked: pip cannot install ruff and mypy here"
    exit 77
fi
cd "$(dirname "$0")/.."
"$tools/bin/ruff" check --no-cache --quiet .
"$tools/bin/mypy" --cache-dir "$tools/mypy-cache" --no-error-summary
