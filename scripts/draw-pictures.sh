#!/bin/sh
# draw-pictures.sh CAIRN: make the pictures of a plan's page and of a sweep in docs/pictures/ anew.
# The first needs a Chromium: tests/page/browser.py.
set -eu
cairn=$(realpath "$1")
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cairn" sweep resnet50 --batch 64 --svg docs/pictures/resnet50-sweep.svg >/dev/null
"$cairn" plan resnet50 --batch 64 --activation-budget 50% --html "$folder/page.html" >/dev/null
python3 - "$folder/page.html" docs/pictures/page.png <<'END'
import sys

sys.path.insert(0, "tests/page")
from browser import Browser, find_browser

with Browser(find_browser()) as browser:
    page = browser.open("file://" + sys.argv[1], width=1280, height=1120)
    page.settle()
    page.screenshot(sys.argv[2])
END
