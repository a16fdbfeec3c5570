#!/bin/sh
# check-words.sh [ROOT]: five words have one meaning each, that of docs/glossary.md. In src/, cli/,
# include/, python/ and docs/, in names as well as in text, each may occur only where that meaning is
# at home, or in a phrase of plain English. Prints every violation; exits with 1 if there is one.
set -eu
root=${1:-$(dirname "$0")/..}
cd "$root"

# word | files where its meaning is at home | phrases that are allowed everywhere
words='
piece|src/solve/|src/graph/views\.c|include/cairn/(solve|papers/.*)\.h|cli/(bench|command)_[a-z]*\.c|docs/(glossary|algorithms|architecture)\.md	["`]pieces["`]|feng or pieces|^    pieces |\(.feng., .pieces.|`feng`, `pieces`
cut|src/solve/chain/|src/solve/offload/trips_|src/graph/views\.c|include/cairn/papers/.*view.*\.h|docs/(glossary|algorithms)\.md	min_cuts?|minimum cuts?|edge (is|that must not be) cut|for each cut|between cuts
way|src/solve/(chain|offload)/|src/solve/regions\.c|include/cairn/arrays\.h|python/cairn/|docs/(glossary|algorithms)\.md	(under|half|same|other|long|either|of the) way|on (the|its|their) way|gives? way|give_way|way (out|from)|ways (to|in)
part|src/plan/lower\.[ch]|src/solve/chain/(precise|measure_piece)\.c|python/cairn/|docs/(glossary|pytorch)\.md	(forward|backward|either|first) part|(forward|backward).s part|larger part|op of a part|no part of|(a|as) part of|become part of|in part|two parts|parts of|of its parts|"part"|part of the (run|recording|region)|--part
schedule|src/(solve|plan|train)/|include/cairn/(train|papers/.*)\.h|cli/|docs/	schedules of the learning rate'

violations=$(find src cli include python docs -type f \
    \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.def' -o -name '*.py' -o -name '*.md' \) | sort |
    xargs grep -n -i -E '(piece|cut|way|part|schedule)' /dev/null | awk -v words="$words" '
    BEGIN {
        rows = split(words, row, "\n")
        for (i = 1; i <= rows; i++) {
            if (row[i] == "")
                continue
            bar = index(row[i], "|")
            tab = index(row[i], "\t")
            word = substr(row[i], 1, bar - 1)
            home[word] = "^(" substr(row[i], bar + 1, tab - bar - 1) ")"
            phrase[word] = substr(row[i], tab + 1)
        }
    }
    {
        file = $0
        sub(/:.*/, "", file)
        text = $0
        sub(/^[^:]*:[0-9]*:/, "", text)
        for (word in home) {
            if (file ~ home[word])
                continue
            rest = tolower(text)
            gsub(tolower(phrase[word]), " ", rest)
            if (rest ~ "(^|[^a-z])" word "s?($|[^a-z])")
                print $0 " (" word ": docs/glossary.md)"
        }
    }')
if [ -n "$violations" ]; then
    printf '%s\n' "$violations" >&2
    exit 1
fi
