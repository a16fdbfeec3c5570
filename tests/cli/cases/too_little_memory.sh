# A step that no machine has the memory for; what would fit depends on the machine.
"$CAIRN" train convnet --steps 1 --batch 4294967295 2>said
echo "[exit $?]"
sed -E 's/has [0-9.]+ .iB/has SOME/; s/--batch [0-9]+$/--batch SOME/' said
