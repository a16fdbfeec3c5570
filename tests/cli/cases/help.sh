# What every command says of itself.
cairn
cairn --help
cairn --version
for command in $("$CAIRN" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    cairn "$command" --help
done
# The help of a command, as other programs also spell it.
"$CAIRN" help plan >spelled && "$CAIRN" plan --help | cmp - spelled && "$CAIRN" help | head -n 1
