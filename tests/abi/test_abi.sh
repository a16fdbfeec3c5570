#!/bin/sh
# test_abi.sh ROOT LIBRARY [UPDATE]: a program that was compiled against the last release still works:
# every symbol is there, structs with struct_size have not shrunk, others have their size. The last
# release is tests/abi/last-release.txt; until it is tagged, `make update-abi` rewrites it.
set -eu
root=$1
library=$2
last=$root/tests/abi/last-release.txt
export LC_ALL=C
now=$(mktemp)
trap 'rm -f "$now" "$now.changed"' EXIT
"$root/scripts/list-abi.sh" "$root" "$library" | sort >"$now"
if [ "${3:-}" = UPDATE ]; then
    cp "$now" "$last"
    exit 0
fi

# broken OLD NEW: print what of OLD is missing or has another size in NEW.
broken() {
    awk 'NR == FNR { kind[$2] = $1; size[$2] = $3; next }
        $1 == "core" { next } # a count, for readers of the list
        !($2 in kind) { print $2 ": is gone"; next }
        $1 == "struct" && $4 == "" && size[$2] != $3 {
            print $2 ": has " size[$2] " bytes, and had " $3
        }
        $4 == "versioned" && size[$2] + 0 < $3 + 0 {
            print $2 ": has shrunk from " $3 " to " size[$2] " bytes"
        }' "$2" "$1"
}

found=$(broken "$last" "$now")
if [ -n "$found" ]; then
    printf '%s\n' "$found" >&2
    echo "programs that use the last release would break; before the release: make update-abi" >&2
    exit 1
fi

# The check itself notices each of these.
sed -e '/^symbol cairn_solve$/d' "$now" >"$now.changed"
broken "$now" "$now.changed" | grep -q '^cairn_solve: is gone'
sed -e 's/^struct cairn_step [0-9]*$/struct cairn_step 4/' "$now" >"$now.changed"
broken "$now" "$now.changed" | grep -q '^cairn_step: has 4 bytes'
sed -e 's/^struct cairn_solve_options [0-9]*/struct cairn_solve_options 8/' "$now" >"$now.changed"
broken "$now" "$now.changed" | grep -q '^cairn_solve_options: has shrunk'
echo "$(grep -vc '^core' "$last") symbols and structs are as they were; $(sed -n 's/^core //p' "$now") in cairn.h"
