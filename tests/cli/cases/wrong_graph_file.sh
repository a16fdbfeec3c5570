# Graph files that are damaged or wrong: line and column, or the path of the wrong value.
"$CAIRN" zoo alexnet --batch 1 -o good.json
damage() { # damage NAME SED-SCRIPT
    sed -e "$2" good.json >"$1.json"
    cairn plan "$1.json"
}
head -c 3000 good.json >truncated.json
cairn plan truncated.json
: >empty.json
cairn plan empty.json
printf '\000\001' >binary.json
cairn plan binary.json
printf '{"format": "\377"}' >encoding.json
cairn plan encoding.json
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "[" }' >deep.json
cairn plan deep.json
echo 5 >number.json
cairn plan number.json
echo '{}' >object.json
cairn plan object.json
damage format '1s/cairn-graph/cairn-plan/'
damage version '1s/"version": 1/"version": 2/'
damage member '1s/"name"/"title"/'
damage comma '3s/,$//'
damage role_type '3s/"role": "input"/"role": 5/'
damage role_name '3s/"role": "input"/"role": "inptu"/'
damage twice_member '3s/"role": "input"/"role": "input", "role": "label"/'
damage huge_number '3s/\[1, 3/[99999999999999999999, 3/'
damage huge_shape '3s/\[1, 3, 224, 224\]/[4294967295, 4294967295, 4294967295]/'
damage zero '3s/\[1, 3/[0, 3/'
damage negative '3s/\[1, 3/[-1, 3/'
damage real '3s/\[1, 3/[1.5, 3/'
damage same_name '4s/"features.0.weight"/"input"/'
damage space '3s/"name": "input"/"name": "in put"/'
damage operand_type 's/"inputs": \[0\]/"inputs": ["x"]/'
damage operand_range 's/"inputs": \[0\]/"inputs": [999999]/'
damage kind 's/"kind": "relu"/"kind": "rleu"/'
damage attribute 's/"stride": \[4, 4\]/"stride": [0, 4]/'
damage no_attribute 's/"stride": \[4, 4\], //'
damage order 's/"inputs": \[0\], "outputs": \[3\]/"inputs": [4], "outputs": [3]/'
damage shape 's/"features.0", "role": "activation", "shape": \[1, 64/"features.0", "role": "activation", "shape": [1, 65/'
