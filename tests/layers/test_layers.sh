#!/bin/sh
# test_layers.sh ROOT: the checks of layers and of words accept the sources as they are, and report
# each kind of violation in a copy of them.
set -eu
root=$1
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
failures=0
check=check-layers.sh

fresh() {
    rm -rf "$copy"/*
    cp -R "$root/src" "$root/cli" "$root/include" "$root/tests" "$root/docs" "$root/CMakeLists.txt" "$copy"
    mkdir "$copy/python"
    cp -R "$root/python/cairn" "$copy/python"
}

# refuses WORDS: the check must fail and print WORDS.
refuses() {
    if said=$("$root/scripts/$check" "$copy" 2>&1); then
        echo "not noticed: $1" >&2
        failures=$((failures + 1))
    elif ! printf '%s\n' "$said" | grep -q -F -e "$1"; then
        printf 'said:\n%s\nnot: %s\n' "$said" "$1" >&2
        failures=$((failures + 1))
    fi
}

"$root/scripts/check-layers.sh" "$root" || failures=$((failures + 1))
fresh
"$root/scripts/check-layers.sh" "$copy" || failures=$((failures + 1))

echo '#include "solve/solver.h"' >>"$copy/src/graph/graph.c"
refuses 'graph may not include "solve/solver.h"'

fresh
echo '#include "solve/auto/auto_search.h"' >>"$copy/src/solve/chain/precise.c"
refuses 'solve/chain may not include "solve/auto/auto_search.h"'

fresh
echo '#include "solve/chain/piece_chain.h"' >>"$copy/src/solve/solve.c"
refuses 'solve may not include "solve/chain/piece_chain.h"'

fresh
echo '#include "graph/crn_graph.h"' >>"$copy/src/cost/costs.c" # order allows it
"$root/scripts/check-layers.sh" "$copy" || failures=$((failures + 1))

echo '#include "graph/graph_internal.h"' >>"$copy/src/cost/costs.c"
refuses '"graph/graph_internal.h" is internal to graph/'

fresh
echo '  # include "elsewhere/x.h"' >>"$copy/src/cost/costs.c"
refuses '"elsewhere/x.h" is in no folder'

fresh
: >"$copy/python/cairn/_stray.py"
refuses 'docs/architecture.md: does not name `_stray`'

fresh
mkdir "$copy/src/stray"
echo '#include "base/crn_base.h"' >"$copy/src/stray/stray.c"
refuses 'folder stray is not in src/LAYERS'

fresh
echo '#include "base/crn_base.h"' >>"$copy/cli/main.c"
refuses 'cli/main.c'

fresh
echo '#include "base/crn_base.h"' >>"$copy/include/cairn/base.h"
refuses 'include/cairn/base.h'

fresh
echo '#include "cairn/solve.h"' >>"$copy/include/cairn/cost.h"
refuses '"cairn/solve.h" stands below it in cairn.h'

fresh
echo '#include "cairn/papers/dag.h"' >>"$copy/include/cairn/solve.h"
refuses '"cairn/papers/dag.h" is not included by cairn.h'

fresh
echo '#include "cairn/base.h"' >"$copy/include/cairn/stray.h"
refuses 'include/cairn/stray.h: is not in cairn.h'

fresh
cp "$copy/src/graph/graph.c" "$copy/cli/graph.c"
refuses 'has the same name'

fresh
echo 'int crn_unlisted;' >"$copy/src/base/unlisted.c"
refuses 'src/base/unlisted.c: is not listed'

check=check-words.sh
"$root/scripts/$check" "$root" || failures=$((failures + 1))
fresh
file=$copy/src/graph/graph.c
for word in piece cuts way_of part schedules; do
    echo "/* a $word */" >>"$file"
    refuses "src/graph/graph.c:$(wc -l <"$file"):/* a $word */"
    sed -i '$d' "$file"
done
echo '/* a copy is under way; the minimum cut; the forward part */' >>"$file"
"$root/scripts/$check" "$copy" || failures=$((failures + 1))

[ $failures -eq 0 ] && echo "every violation was noticed"
exit $failures
