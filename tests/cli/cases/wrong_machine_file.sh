# Machines and cost tables from files, good and wrong.
cat >slow.json <<'END'
{"format": "cairn-machine", "version": 1, "name": "slow", "flops_per_second": 1000000000,
 "memory_bytes_per_second": 1000000000, "launch_ns": 0, "link_bytes_per_second": 1000000000,
 "link_latency_ns": 0, "full_duplex": false, "memory_bytes": 1, "host_memory_bytes": 0}
END
cairn plan alexnet --batch 1 --machine slow.json --top 0
damage() {
    sed -e "$2" slow.json >"$1.json"
    cairn plan alexnet --batch 1 --machine "$1.json"
}
damage rate 's/"flops_per_second": 1000000000/"flops_per_second": 0/'
damage duplex 's/false/"no"/'
damage absent 's/"launch_ns": 0, //'
damage unknown 's/"launch_ns"/"lunch_ns"/'
damage syntax 's/"link_latency_ns": 0,/"link_latency_ns": 0/'

cat >costs.json <<'END'
{"format": "cairn-costs", "version": 1, "source": "by hand", "ops": [
{"signature": "relu [1,64,55,55] -> [1,64,55,55]", "implementations": [
 {"name": "fast", "time_ns": 1000000000, "workspace_bytes": 1048576}]}]}
END
cairn plan alexnet --batch 1 --costs costs.json --top 0
cairn plan alexnet --batch 2 --costs costs.json
wrong() {
    sed -e "$2" costs.json >"$1.json"
    cairn plan alexnet --batch 1 --costs "$1.json"
}
wrong time 's/"time_ns": 1000000000/"time_ns": -1/'
wrong list 's/\[$/[[],/'
wrong none 's/^ {.*/]}]}/'
