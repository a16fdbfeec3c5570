#!/bin/sh
# check-kernels.sh: nvcc compiles every kernel of the backend cuda for sm_80, sm_90 and as PTX,
# without a warning and with at most 64 bytes of spilled registers. The result must have each kernel
# of the list. Exits with 77 if there is no nvcc.
set -eu
cd "$(dirname "$0")/.."
command -v nvcc >/dev/null || { echo "no nvcc here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
source=src/backend/cuda/kernels/all_kernels.c

for target in sm_80 sm_90; do
    nvcc -x cu -std=c++17 -O3 -fmad=false -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror \
        -Isrc -arch=$target -Xptxas -v -cubin -o "$folder/$target.cubin" $source \
        >"$folder/$target.log" 2>&1 || { cat "$folder/$target.log"; exit 1; }
    awk -v target=$target '
        /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
        /bytes spill stores/ && $5 > 64 { print target ": " name ": " $0; bad = 1 }
        END { exit bad }' "$folder/$target.log"
done
nvcc -x cu -std=c++17 -O3 -fmad=false -Werror all-warnings -Isrc -arch=compute_90 -ptx \
    -o "$folder/kernels.ptx" $source

# The forms of each kernel, as kernels.def says, against the entries of the PTX.
awk -F '[(,]' '
    /^IMAGE/ { print "crn_" $2 "_f32\ncrn_" $2 "_bf16\ncrn_" $2 "_f32_narrow\ncrn_" $2 "_bf16_narrow" }
    /^TYPED/ { print "crn_" $2 "_f32\ncrn_" $2 "_bf16" }
    /^PLAIN/ { print "crn_" $2 }' src/backend/cuda/kernels.def | sort >"$folder/listed"
sed -n 's/^\.visible \.entry \(crn_[a-z0-9_]*\).*/\1/p' "$folder/kernels.ptx" | sort >"$folder/made"
diff "$folder/listed" "$folder/made"
echo "$(wc -l <"$folder/listed") kernels"
