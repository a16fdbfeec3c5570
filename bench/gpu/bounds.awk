# bounds.awk: prints what no plan of a log can be faster than, with the update, and what that is
# against the usual step.
#   awk -f bench/gpu/bounds.awk LOG
# The log is one of `run.sh BUILD OUT tokens`. `cairn plan` prints times without the update, `cairn
# train` predicts steps with it: the difference of the two for the same plan is the update.
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
}
/^ *time of a step/ { without_update = $5 * ($6 == "s" ? 1000 : 1) }
/^ *no plan takes less than/ && none > 0 {
    bound = $6 * ($7 == "s" ? 1000 : 1) + with_update - without_update
    printf "  %s in %s, %s: no plan takes less than %.2f ms with the update, %+.1f%% against none\n", network, budget,
        bits, bound, 100 * (bound / none - 1)
}
