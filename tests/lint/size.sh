#!/bin/sh
# Ceilings: a file has at most 1000 lines (600 is the aim), a function 80 (60 is the aim) and 9
# parameters. Files named *_tab.c are tables and may be longer.
# A function runs from its first line at column 0 to the brace that closes it there; clang-format
# keeps it so.
set -eu
cd "$(dirname "$0")/../.."
list=$(find engine kernels harness scenarios reports datasets tests '(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' ')' \
    | sort)
# Exemptions, one a line: path function.
# *_norm_rope: their parameters are those of struct backend_ops, one op that fuses two
exempt='
kernels/cpu/backend_cpu.c cpu_norm_rope
kernels/cuda/backend_cuda.cu norm_rope
kernels/cuda/cuda_elem.cu cuda_norm_rope
kernels/null/backend_null.c null_norm_rope
kernels/ref/ref_rope.c ref_norm_rope
'
# shellcheck disable=SC2086 # file names of the tree have no blanks
awk -v exempt="$exempt" '
function bad(place, text) { printf "%s: %s\n", place, text; n_bad++ }
function end_file() {
    if (file != "" && lines > 1000 && file !~ /_tab\.c$/) bad(file, lines " lines, at most 1000")
    if (lines > 600 && file !~ /_tab\.c$/) n_over_file++
}
FNR == 1 { end_file(); file = FILENAME; start = 0; open_at = 0 }
{ lines = FNR }
/^[A-Za-z_]/ && !open_at { start = FNR; head = ""; name = $0 }
start && !open_at { head = head $0 }
/\) \{$/ && start && !open_at { open_at = FNR }
/^[^ \t].*;$/ && !open_at { start = 0 }
/^\}$/ && open_at {
    n_fn++
    len = FNR - start + 1
    n_arg = gsub(/,/, ",", head) + 1
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    if (index(exempt, "\n" FILENAME " " name "\n") == 0) {
        if (len > 80) bad(FILENAME ":" start, name " has " len " lines, at most 80")
        if (n_arg > 9) bad(FILENAME ":" start, name " has " n_arg " parameters, at most 9")
    }
    if (len > 60) n_over_fn++
    start = 0
    open_at = 0
}
END {
    end_file()
    printf "size: %d files, %d functions, %d breaches; past the aim: %d files, %d functions\n",
        ARGC - 1, n_fn, n_bad, n_over_file, n_over_fn
    exit n_bad > 0 || n_fn == 0
}' $list
