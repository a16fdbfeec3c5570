# Profiling: times differ from run to run, but they add up, and other commands can use them.
model="--batch 2 --input 8x16 --seq 6 --classes 4 --backend ref --threads 2"
hide() { sed -E 's/ *\b[0-9.]+ (ns|us|ms|s)\b/ TIME/g; s/[0-9.]+ [KMG]iB$/SIZE/; s/ *[0-9.]+%$/ SHARE/'; }
"$CAIRN" profile lstm $model --repeat 3 --top 2 -o costs.json | hide |
    sed 's/^  [a-z_]*  *[a-z.0-9_]*  *[0-9]* TIME/  KIND OP COUNT TIME/'
sed -n '1,3s/\(_second\|_ns\)": [0-9]*/\1": N/gp' costs.json
"$CAIRN" profile lstm $model --repeat 1 --json | sed 's/\(_[a-z]*\|share\)": [0-9.]*/\1": N/g' | tail -n 1
"$CAIRN" profile lstm $model --repeat 1 -o - | grep -c '"low_ns"'

# The time of a plan is the sum of the times of its ops.
"$CAIRN" plan lstm $model --costs costs.json --algorithm none --json | sed 's/.*"time_ns": \([0-9]*\),.*/\1/' >time
"$CAIRN" plan lstm $model --costs costs.json --algorithm none --top 0 | hide
"$CAIRN" plan lstm $model --costs costs.json -o lstm.plan >/dev/null
"$CAIRN" simulate lstm.plan --backend ref --threads 2 --costs costs.json --json | sed 's/.*"time_ns": \([0-9]*\),.*/\1/' | cmp - time
"$CAIRN" sweep lstm $model --costs costs.json | head -n 1 | hide

# Training prints the predicted time.
"$CAIRN" train lstm $model --costs costs.json --steps 3 | hide | sed -n 's/([^)]*)/(ERROR)/; /predicted T/p'
"$CAIRN" train lstm $model --costs costs.json --steps 1 --json | grep -c '"predicted_ms"'
"$CAIRN" train lstm $model --steps 1 --json | grep -c '"predicted_ms"'

# What is refused.
cairn profile
cairn profile lstm --backend abacus | sed 's/; the backends are.*//'
cairn profile lstm --repeat 0
cairn profile lstm --batch 2 --input 8x16 --seq 2 --classes 4 --repeat 1 --top 0 --backend ref --threads 2 -o /proc/no/folder | hide
cairn plan lstm --batch 2 --input 8x16 --seq 6 --classes 4 --backend ref --threads 1 --costs costs.json
cairn plan lstm --batch 3 --input 8x16 --seq 6 --classes 4 --backend ref --threads 2 --costs costs.json --top 0 | hide
cairn train lstm --threads 3 --backend ref --costs costs.json
wrong() {
    sed -e "$2" costs.json >"$1.json"
    cairn plan lstm $model --costs "$1.json"
}
wrong link 's/"link_bytes_per_second": [0-9]*/"link_bytes_per_second": 0/'
wrong machine 's/"machine": {[^}]*}/"machine": 7/'
wrong rate 's/"update_bytes/"updates_bytes/'
wrong threads 's/"threads": 2/"threads": "two"/'
wrong order 's/"low_ns": [0-9]*/"low_ns": 900000000000000/' | sed 's/0 to .*/0 to TIME/'
wrong other 's/"backend": "ref"/"backend": "abacus"/'
