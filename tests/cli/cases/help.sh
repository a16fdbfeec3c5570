# What every command says of itself.
cairn
cairn --help
cairn --version
for command in $("$CAIRN" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    cairn "$command" --help
done
