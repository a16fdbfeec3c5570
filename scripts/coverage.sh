#!/bin/sh
# coverage.sh: line and branch coverage of src/ by all tests except the large ones, measured by
# gcov.
#
# Prints one line per folder and the total; the report with every line is in
# build-coverage/report/index.html. A line that is an assertion has no branches here: its other way
# is a bug of ours, which no test can reach.
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-2}
cmake --preset coverage >/dev/null
find build-coverage -name '*.gcda' -delete # the build runs the command, which would add to them
cmake --build --preset coverage -j "$jobs" >/dev/null
find build-coverage -name '*.gcda' -delete
ctest --preset coverage -j "$jobs" --quiet || {
    echo "tests failed: build-coverage/Testing/Temporary/LastTest.log" >&2
    exit 1
}
mkdir -p build-coverage/report
gcovr --root . --filter src/ --exclude-unreachable-branches --exclude-throw-branches \
    --exclude-branches-by-pattern '^ *assert\(' -j "$jobs" \
    --html-details build-coverage/report/index.html --csv build-coverage/report/files.csv \
    build-coverage >/dev/null
awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    {
        folder = $column["filename"]
        sub(/\/[^\/]*$/, "", folder)
        lines[folder] += $column["line_total"]; all_lines += $column["line_total"]
        reached[folder] += $column["line_covered"]; all_reached += $column["line_covered"]
        branches[folder] += $column["branch_total"]; all_branches += $column["branch_total"]
        taken[folder] += $column["branch_covered"]; all_taken += $column["branch_covered"]
    }
    function show(name, a, b, c, d) {
        printf "%-24s %6d lines %6.1f%%  %6d branches %6.1f%%\n", name, a, 100 * b / (a ? a : 1), c,
            100 * d / (c ? c : 1)
    }
    END {
        for (folder in lines)
            show(folder, lines[folder], reached[folder], branches[folder], taken[folder])
        show("total", all_lines, all_reached, all_branches, all_taken)
    }' build-coverage/report/files.csv | sort
