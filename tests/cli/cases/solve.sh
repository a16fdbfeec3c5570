# The abstract problems, from files. solve_ns is a time and is removed.
solve() {
    echo "\$ cairn solve $*"
    "$CAIRN" solve "$@" 2>&1 | sed -e 's/, *"solve_ns": *[0-9]*//'
}
cat >acg.json <<'END'
[{"costs": [1, 5, 2, 3, 4, 2, 6, 1, 3], "edges": [[0,1],[1,2],[1,3],[1,4],[2,5],[3,5],[4,5],[3,4],
  [5,6],[6,7],[7,8]], "source": 0, "target": 8}]
END
for algorithm in feng pieces; do
    solve acg acg.json --json --algorithm $algorithm
done
"$CAIRN" solve acg acg.json --tree | tail -n +3 # without the time
cat >chain.json <<'END'
{"N": 5, "alpha_f": [0, 1, 2, 3, 4, 1], "alpha_b": [1, 1, 2, 3, 4, 1, 0],
 "beta_f": [1, 2, 1, 2, 1, 2], "beta_b": [1, 1, 2, 1, 2, 1, 1], "budget": 8}
END
for algorithm in precise exact none; do
    solve chain chain.json --json --algorithm $algorithm
done
cairn solve acg nofile.json
cairn solve nosuch acg.json
cairn solve acg acg.json --algorithm nosuch
cairn solve chain chain.json --algorithm nosuch
sed -e 's/\[7,8\]/[7,9]/' acg.json >range.json
cairn solve acg range.json
sed -e 's/\[7,8\]/[7,8],[8,0]/' acg.json >cycle.json
cairn solve acg cycle.json
sed -e 's/\[1, 5/["one", 5/' acg.json >type.json
cairn solve acg type.json
sed -e 's/"N": 5/"N": 6/' chain.json >short.json
cairn solve chain short.json
sed -e 's/"budget": 8/"budget": -8/' chain.json >negative.json
cairn solve chain negative.json
