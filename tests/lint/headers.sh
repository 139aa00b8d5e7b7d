#!/bin/sh
# Every header compiles alone as C17; those that a .cu may include, as C++17 too. *.inc.h are pieces
# of other files and are left out; so is kernels/cuda where there is no CUDA.
set -eu
cd "$(dirname "$0")/../.."
cc=${CC:-cc}
cxx=${CXX:-c++}
flags='-fsyntax-only -D_GNU_SOURCE -I. -Wall -Wextra -Werror'
list=$(find engine kernels harness scenarios reports datasets tests -name '*.h' \
    ! -name '*.inc.h' | sort)
command -v nvcc >/dev/null 2>&1 || list=$(echo "$list" | grep -v '^kernels/cuda/' || true)
out=$(mktemp)
trap 'rm -f "$out"' EXIT
# why: a header as the main file is warned about for its #pragma once or unused statics; an empty
# file that includes it is what a user of it compiles
one() { # COMPILER LANGUAGE STANDARD HEADER...
    compiler=$1
    language=$2
    standard=$3
    shift 3
    for h in "$@"; do
        # shellcheck disable=SC2086 # flags are words
        printf '#include "%s"\n' "$h" | "$compiler" $flags -x "$language" "-std=$standard" - 2>&1 ||
            echo "$h: does not compile alone as $standard"
    done
}
# shellcheck disable=SC2086 # file names of the tree have no blanks
one "$cc" c c17 $list >"$out"
cpp='kernels/batch.h kernels/dtype.h kernels/ops.h kernels/backend.h engine/base/types.h engine/base/err.h'
n_cpp=0
if command -v "$cxx" >/dev/null 2>&1; then
    n_cpp=$(echo "$cpp" | wc -w)
    # shellcheck disable=SC2086
    one "$cxx" c++ c++17 $cpp >>"$out"
else
    echo "headers: no C++ compiler, kernels' headers are not checked as C++17"
fi
cat "$out"
n_bad=$(grep -c 'does not compile alone' "$out" || true)
echo "headers: $(echo "$list" | wc -l) as C17, $n_cpp as C++17, $n_bad breaches"
[ "$n_bad" -eq 0 ] && [ -n "$list" ]
