#!/bin/sh
# style.sh SOURCE BUILD: the page's script and style are formatted as Deno does it, and its linter
# and type checker find nothing. Deno comes as a wheel that is installed in the build folder. Exits
# with 77 if that is not possible. page.html is a template with {{words}} that the formatter
# cannot read; test_page.py checks the page that is made from it.
set -eu
tools=$2/page-tools
if [ ! -x "$tools/bin/deno" ] && ! { python3 -m venv "$tools" &&
    "$tools/bin/pip" install --quiet --disable-pip-version-check deno==2.9.8; } >/dev/null 2>&1; then
    rm -rf "$tools"
    echo "SKIPPED: the form of the page's script was not checked: pip cannot install deno here"
    exit 77
fi
cd "$1/src/report/page"
export NO_COLOR=1 DENO_NO_UPDATE_CHECK=1 DENO_DIR="$tools/cache"
"$tools/bin/deno" fmt --check
"$tools/bin/deno" lint
"$tools/bin/deno" check ./*.js
