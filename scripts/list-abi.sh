#!/bin/sh
# list-abi.sh ROOT LIBRARY: print what programs that were compiled against the public headers rely on:
# the symbols of the shared library, and the sizes of the structs that callers make, one a line:
#
#     core 100 functions
#     symbol cairn_solve
#     struct cairn_solve_options 96 versioned
#     struct cairn_step 16
#
# The core is what cairn.h declares. A struct with struct_size is versioned, and so is one that only
# the library makes: it may grow at its end.
set -eu
root=$1
library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo '#include <cairn.h>' >"$work/core.c"
echo "core $("${CC:-cc}" -E -P -I "$root/include" "$work/core.c" | grep -c 'visibility("default")') functions"

nm -D --defined-only "$library" | sed -n -e 's/^.* [TDBR] \(cairn_[a-z0-9_]*\)$/symbol \1/p'

{
    echo '#include <cairn.h>'
    echo '#include <cairn/arrays.h>'
    echo '#include <cairn/budget.h>'
    echo '#include <cairn/papers.h>'
    echo '#include <cairn/safetensors.h>'
    echo '#include <cairn/report.h>'
    echo '#include <cairn/page.h>'
    echo '#include <stdio.h>'
    echo 'int main(void) {'
    cat "$root"/include/cairn/*.h "$root"/include/cairn/papers/*.h | awk '
        /^\/\*/ { library = "" }
        /Only the library makes/ { library = " versioned" }
        /^typedef struct cairn_[a-z0-9_]+ \{/ { name = $3; versioned = library }
        name != "" && /^ *uint32_t struct_size;/ { versioned = " versioned" }
        name != "" && /^}/ {
            printf "    printf(\"struct %s %%zu%s\\n\", sizeof(%s));\n", name, versioned, name
            name = library = ""
        }'
    echo '    return 0; }'
} >"$work/sizes.c"
"${CC:-cc}" -std=c11 -I "$root/include" "$work/sizes.c" -o "$work/sizes"
"$work/sizes"
