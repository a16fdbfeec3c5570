#!/bin/sh
# page.sh CAIRN: the pages of plans in a real browser: see test_page.py. Exits with 77 if there is
# no browser.
set -eu
if ! command -v python3 >/dev/null; then
    echo "SKIPPED: the page was not tested, because there is no python3 here"
    exit 77
fi
exec python3 "$(dirname "$0")/test_page.py" "$1"
