# Plans that are damaged (line and column), for another graph, or illegal (the rule and its step).
"$CAIRN" plan alexnet --batch 1 -o good.plan >/dev/null
damage() { # damage NAME SED-SCRIPT
    sed -e "$2" good.plan >"$1.plan"
    cairn verify "$1.plan"
}
cairn verify good.plan vgg11
head -c 400 good.plan >truncated.plan
cairn verify truncated.plan
: >empty.plan
cairn verify empty.plan
damage version '1s/1/2/'
damage model '2s/alexnet/alexnot/'
damage batch '3s/batch 1/batch 01/'
damage goal 's/^goal train/goal tarin/'
damage hash 's/^graph ./graph x/'
damage fewer 's/^steps .*/steps 10/'
damage more 's/^steps .*/steps 99/'
damage step '20s/^run/walk/'
damage name 's/^free input$/free inptu/'
damage space '20s/ /  /'
damage tail '20s/$/ inplace 9/'
damage implementation '11s/$/ impl 7/'
steps() { # the same, with a line removed or added
    sed -e "$2" good.plan >draft
    count=$(($(wc -l <draft) - 10))
    sed -e "s/^steps .*/steps $count/" draft >"$1.plan"
    cairn verify "$1.plan"
    cairn verify "$1.plan" --json
}
steps never_freed '/^free input$/d'
steps freed_twice '/^free input$/p'
steps read_after_free '/^run features.0$/a free input'
steps fetched '/^run features.0$/a fetch input'
steps not_made '/^run features.0$/d'
cairn verify good.plan --activation-budget 1MiB
cairn verify good.plan --activation-budget 10%
