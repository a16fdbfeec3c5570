# bounds.awk: prints the steps of a log without the update, and what no plan can be faster than, with
# the update, also against the usual step.
#   awk -f bench/gpu/bounds.awk LOG
# The log is one of `run.sh BUILD OUT tokens`. `cairn plan` prints times without the update, `cairn
# train` predicts steps with it: the difference of the two for the same plan is the update. A measured
# step without it is the measured one less the update as `cairn profile` measured it alone.
/^a step takes .* to update the parameters/ {
    for (i = 1; i < NF; i++)
        if ($i == "and")
            update = $(i + 1) / ($(i + 2) == "us" ? 1000 : 1)
}
/^\$ cairn train/ {
    network = $4
    usual = /--algorithm none/
    bits = /--same-bits/ ? "same bits" : "chunks allowed"
    budget = ""
    for (i = 1; i < NF; i++)
        if ($i == "--activation-budget")
            budget = $(i + 1)
}
/^ *predicted .* a step/ {
    with_update = $2 * ($3 == "s" ? 1000 : 1)
    if (usual)
        none = with_update
    for (i = 1; i < NF; i++)
        if ($i == "measured")
            measured = $(i + 1) * ($(i + 2) ~ /^s/ ? 1000 : 1)
    printf "  %s in %s: %.2f ms, %.2f without the update\n", network, usual ? "any memory" : budget ", " bits, measured,
        measured - update
}
/^ *time of a step/ { without_update = $5 * ($6 == "s" ? 1000 : 1) }
/^ *no plan takes less than/ && none > 0 {
    bound = $6 * ($7 == "s" ? 1000 : 1) + with_update - without_update
    printf "  %s in %s, %s: no plan takes less than %.2f ms with the update, %+.1f%% against none\n", network, budget,
        bits, bound, 100 * (bound / none - 1)
}
