#!/bin/sh
# check-kernels.sh: nvcc compiles every kernel of the backend cuda for sm_80, sm_90, sm_90a and as
# PTX, and those for compute capability 9.0 only for sm_90a, without a warning and with at most 64
# bytes of spilled registers. The result must have each kernel of the list. Exits with 77 if there is
# no nvcc.
set -eu
cd "$(dirname "$0")/.."
command -v nvcc >/dev/null || { echo "no nvcc here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# make_ptx VERSION: compile the kernels to PTX; make_code VERSION PTX: compile PTX to code.
make_ptx() {
    nvcc -std=c++17 -O3 -fmad=false -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror \
        -Isrc -arch=compute_$1 -ptx -o "$folder/$1.ptx" src/backend/cuda/kernels/kernels.cu
}
make_code() {
    nvcc -Werror all-warnings -arch=sm_$1 -Xptxas -v -cubin -o "$folder/$1.cubin" "$folder/$2.ptx" \
        >"$folder/$1.log" 2>&1 && touch "$folder/$1.made"
}

# At the same time. The kernels have no code for sm_90a alone, so its PTX is that of 9.0.
for version in 80 90; do
    {
        make_ptx $version >"$folder/$version.log" 2>&1 && make_code $version $version
        [ $version -ne 90 ] || make_code 90a 90
    } &
done
{ nvcc -std=c++17 -O3 -Werror all-warnings -Isrc -gencode=arch=compute_90a,code=sm_90a \
    -Xptxas -v -cubin -o "$folder/hopper.cubin" src/backend/cuda/kernels/hopper_attention.cu &&
    touch "$folder/hopper.made"; } >"$folder/hopper.log" 2>&1 &
wait
for version in 80 90 90a hopper; do
    [ -e "$folder/$version.made" ] || { cat "$folder"/*.log; exit 1; }
    awk -v target=sm_$version '
        /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
        /bytes spill stores/ && $5 > 64 { print target ": " name ": " $0; bad = 1 }
        /instructions are serialized/ { print target ": " $0; bad = 1 }
        END { exit bad }' "$folder/$version.log"
done

# The forms of each kernel, as kernels.def says, against the entries of the PTX.
awk -F '[(,]' '
    /^IMAGE/ { print "crn_" $2 "_f32\ncrn_" $2 "_bf16\ncrn_" $2 "_f32_narrow\ncrn_" $2 "_bf16_narrow" }
    /^TYPED/ { print "crn_" $2 "_f32\ncrn_" $2 "_bf16" }
    /^PLAIN/ { print "crn_" $2 }' src/backend/cuda/kernels.def | sort >"$folder/listed"
sed -n 's/^\.visible \.entry \(crn_[a-z0-9_]*\).*/\1/p' "$folder/90.ptx" | sort >"$folder/made"
diff "$folder/listed" "$folder/made"
echo "$(wc -l <"$folder/listed") kernels"
