#!/bin/sh
# check-layers.sh [ROOT]: checks which files include which, and that every source is built.
#
# A file in src/X may include its own folder, the folders above X in src/LAYERS, and the public
# headers. A header NAME_internal.h belongs to its folder and the folders inside it. A folder inside
# another one is a layer if src/LAYERS lists it, as solve/chain; otherwise its files belong to the
# folder around it. Files in cli/ and include/ may include only public headers and their own folder. A public header may include only those above it in
# cairn.h. Those that cairn.h only names in a comment, and what lies in cairn/papers/, may include
# any; those that it includes may not include them. File names are unique, so that a file can be
# named without its path. Every .c below src/ and cli/ is listed in CMakeLists.txt or in the list of
# its backend. docs/architecture.md names every folder of src/ and every module of python/cairn.
# Prints every violation; exits with 1 if there is one.
set -eu
root=${1:-$(dirname "$0")/..}
cd "$root"

includes() { # one line for each quoted include: FILE:LINE:NAME
    find "$@" -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' \) | sort | xargs awk '
        /^[ \t]*#[ \t]*include[ \t]*"/ {
            split($0, parts, "\"")
            print FILENAME ":" FNR ":" parts[2]
        }'
}

check_folders() {
    includes src | awk -F: '
        function layer(path) { # the innermost folder of a path that is a layer, else the outermost
            folder = path
            while (sub(/\/[^\/]*$/, "", folder))
                if (folder in level)
                    return folder
            sub(/\/.*/, "", path)
            return path
        }
        BEGIN { while ((getline name < "src/LAYERS") > 0) if (name != "") level[name] = ++count }
        {
            from = $1
            sub(/^src\//, "", from)
            from = layer(from)
            to = index($3, "/") ? layer($3) : from
            if ($3 == "cairn.h" || to == "cairn")
                next
            if (!(from in level))
                print $1 ":" $2 ": folder " from " is not in src/LAYERS"
            else if (!(to in level))
                print $1 ":" $2 ": \"" $3 "\" is in no folder of src/LAYERS"
            else if (level[to] > level[from])
                print $1 ":" $2 ": " from " may not include \"" $3 "\": " to " comes after it"
            home = $3
            if (home ~ /_internal\.h$/ && sub(/\/[^\/]*$/, "/", home) && index($1, "src/" home) != 1)
                print $1 ":" $2 ": \"" $3 "\" is internal to " home
        }'
}

check_public_only() { # of cli/ and include/
    includes cli include | while IFS=: read -r file line name; do
        own=$(dirname "$file")/$name
        case $name in
        cairn.h | cairn/*) [ ! -e "include/$name" ] || continue ;;
        */*) ;;
        *) [ ! -e "$own" ] || continue ;;
        esac
        echo "$file:$line: \"$name\" is neither a public header nor beside this file"
    done
}

check_headers() { # a public header includes only those that stand above it in cairn.h
    apart=$(sed -n 's/^ \*  *\(cairn\/[a-z_]*\.h\)  .*/\1/p' include/cairn.h)
    includes include | awk -F: -v apart="$(echo $apart)" '
        function is_apart(header) { return header in named || header ~ /^cairn\/papers\// }
        BEGIN { count_apart = split(apart, list, " "); for (i = 1; i <= count_apart; i++) named[list[i]] }
        $1 == "include/cairn.h" { place[$3] = ++count; next }
        { line[++lines] = $0 }
        END {
            for (i = 1; i <= lines; i++) {
                split(line[i], part, ":")
                from = part[1]
                sub(/^include\//, "", from)
                if (is_apart(from))
                    continue
                if (!(from in place))
                    print part[1] ": is not in cairn.h"
                else if (is_apart(part[3]))
                    print part[1] ":" part[2] ": \"" part[3] "\" is not included by cairn.h"
                else if (part[3] ~ /\.h$/ && place[part[3]] >= place[from])
                    print part[1] ":" part[2] ": \"" part[3] "\" stands below it in cairn.h"
            }
        }'
}

check_names() {
    find bench cli examples fuzz include src tests -type f \
        \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.def' \) \
        2>/dev/null | sort | awk '
        {
            name = $0
            sub(/.*\//, "", name)
            if (name in seen)
                print $0 ": " seen[name] " has the same name"
            else
                seen[name] = $0
        }'
}

check_listed() {
    lists=$(find src/backend -name '*_sources.cmake')
    find src cli -type f -name '*.c' | sort | awk -v lists="CMakeLists.txt $(echo $lists)" '
        BEGIN {
            files = split(lists, names, " ")
            for (f = 1; f <= files; f++)
                while ((getline line < names[f]) > 0) {
                    sub(/#.*/, "", line)
                    count = split(line, words, /[ \t()]+/)
                    for (i = 1; i <= count; i++)
                        listed[words[i]] = 1
                }
        }
        !($0 in listed) { print $0 ": is not listed in CMakeLists.txt" }'
}

check_map() {
    { sed 's|.*|`src/&/`|; s|`src/solve/\([a-z]*/`\)|`\1|' src/LAYERS
      find python/cairn -name '_*.py' ! -name '__init__.py' | sed 's|.*/\(.*\)\.py|`\1`|'; } | sort |
        while read -r name; do
            grep -q -F -e "$name" docs/architecture.md || echo "docs/architecture.md: does not name $name"
        done
}

violations=$(check_folders; check_public_only; check_headers; check_names; check_listed; check_map)
if [ -n "$violations" ]; then
    printf '%s\n' "$violations" >&2
    exit 1
fi
