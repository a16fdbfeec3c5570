#!/bin/sh
# draw-pictures.sh CAIRN: redraw all pictures in docs/pictures/: a plan's page, a sweep, and the curves
# of the training run in docs/guide.md. The page needs a Chromium: tests/page/browser.py.
set -eu
cairn=$(realpath "$1")
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cairn" sweep resnet50 --batch 64 --svg docs/pictures/resnet50-sweep.svg >/dev/null
"$cairn" plan resnet50 --batch 64 --activation-budget 50% --html "$folder/page.html" >/dev/null
train=$(sed -n 's/^    \$ cairn \(train .*\) --out free$/\1/p' docs/guide.md)
# shellcheck disable=SC2086 # the words of the guide's command
"$cairn" $train --out "$folder/free" >/dev/null
cp "$folder/free/training.svg" docs/pictures/
python3 - "$folder/page.html" docs/pictures/page.png <<'END'
import sys

sys.path.insert(0, "tests/page")
from browser import Browser, find_browser

with Browser(find_browser()) as browser:
    page = browser.open("file://" + sys.argv[1], width=1280, height=1120)
    page.settle()
    page.screenshot(sys.argv[2])
END
