#!/bin/sh
# offload.sh CAIRN DATA: the command `cairn solve offload`: exit codes, the lines of --json,
# messages.
cairn=$1
data=$2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

# expect CODE PATTERN ARGUMENTS...: the exit code, and a line of either output that matches.
expect() {
    code=$1 pattern=$2
    shift 2
    "$cairn" solve offload "$@" >"$folder/output" 2>&1
    got=$?
    if [ "$got" -ne "$code" ] || ! grep -q -- "$pattern" "$folder/output"; then
        echo "failed: cairn solve offload $*: exit $got, wanted $code and '$pattern' in:" >&2
        cat "$folder/output" >&2
        failed=1
    fi
}

good=$data/offload_examples.json
one='"L":1,"x":[6,1,2],"y":[7,6,0],"exF":[0,0],"exB":[8,0],"uF":[1,1],"uB":[6,4]'
echo "{$one,\"beta\":2,\"M_gpu\":27}" >"$folder/tight.json"
echo "{$one,\"beta\":0,\"M_gpu\":27}" >"$folder/still.json"
echo "{$one,\"beta\":2,}" >"$folder/syntax.json"

expect 0 '^{"case":13,"makespan_x_beta":10,"offloaded":\[0,3\],"lower_bound_x_beta":10,"solve_ns":[0-9]*}$' "$good" --json
expect 0 '^{"case":2,"makespan_x_beta":null,"offloaded":\[\],"lower_bound_x_beta":24,"solve_ns":[0-9]*}$' "$good" --json
expect 0 '^{"case":13,"makespan_x_beta":12,' "$good" --json --algorithm offload-dynprog --release fractional
expect 0 '^{"case":13,"makespan_x_beta":12,' "$good" --json -a offload-dynprog --release fractional --slots exact
for name in offload-best offload-greedy offload-dynprog vdnn tflms autoswap; do
    expect 0 "^$name, whole release" "$good" --algorithm $name
    expect 0 "^$name, fractional release" "$good" --algorithm $name --release fractional
done
expect 3 'B_0 alone needs 28 of memory and M_gpu is 27' "$folder/tight.json"
expect 3 '"makespan_x_beta":null' "$folder/tight.json" --json
expect 1 'still.json: beta: is 0' "$folder/still.json"
expect 1 'syntax.json:1:' "$folder/syntax.json"
expect 1 'there is no file' "$folder/absent.json"
expect 2 '--algorithm is one of offload-best' "$good" --algorithm nonsense
expect 2 '--release is one of whole, fractional' "$good" --release half
expect 2 '--slots must be' "$good" --slots 0
exit $failed
