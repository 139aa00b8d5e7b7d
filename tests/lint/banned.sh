#!/bin/sh
# Words that have no place in our C, or only one. Comments and strings are not looked at.
set -eu
cd "$(dirname "$0")/../.."
code=$(mktemp)
trap 'rm -f "$code"' EXIT
find engine kernels harness scenarios reports datasets tests '(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' ')' |
    sort | xargs awk -f tests/lint/code.awk >"$code"
n_bad=0
n_rule=0
start='(^|[^_a-zA-Z0-9>.])'
# check WORDS PATHS WHY: calls of WORDS in files outside PATHS (an extended regular expression).
# why: the first part of a line is its path and number, so a word is looked for behind ": "
check() {
    n_rule=$((n_rule + 1))
    hits=$(grep -E ": .*$start($1) *\(|: ($1) *\(" "$code" | grep -vE "^($2)" || true)
    [ -z "$hits" ] && return 0
    echo "$hits" | while IFS= read -r hit; do
        place=${hit%%: *}
        line=${place#*:}
        # memory that jansson gave goes back to free; the line says so
        case $3 in *jansson*)
            sed -n "${line}p" "${place%%:*}" | grep -q 'free(.*/\*.*jansson' && continue ;;
        esac
        echo "$hit  <- $3"
    done >"$code.hits"
    n=$(grep -c . "$code.hits" || true)
    cat "$code.hits"
    rm -f "$code.hits"
    n_bad=$((n_bad + n))
}
none='$^'
check 'atoi|atol|atof|strtok|sprintf|vsprintf|strcpy|strcat|gets|rand|srand|alloca' "$none" 'banned'
check 'malloc|calloc|realloc|free|strdup|strndup|asprintf' 'engine/base/mem\.c' \
    'mem_* only (or a comment that names jansson)'
check 'fopen|freopen|tmpfile|tmpnam|mktemp' 'tests/' 'file_* only'
check 'exit|_exit|abort|quick_exit' 'harness/main/|harness/spawn\.c|tests/fuzz/|tests/support/cli\.c' \
    'only main and a child between fork and exec may exit'
check 'getenv|secure_getenv|setenv' 'harness/main/|tests/' 'the environment is read in main'
check 'printf|vprintf|fprintf|vfprintf|puts|fputs|putchar|putc|fputc|perror|fwrite' \
    'harness/|tests/|engine/base/log\.c' 'nothing below harness prints'
check 'time|gettimeofday|clock_gettime|clock|localtime|gmtime|ctime' \
    'engine/base/clock\.c|harness/|tests/' 'clocks are at the ends'
check 'clock_now_ns|clock_wall_ns|file_[a-z0-9_]*|log_[a-z]*' \
    'engine/(base|model|run|quant|text|serve)/|kernels/|harness/|reports/|scenarios/|datasets/|tests/' \
    'engine/sched is pure'
check 'popen|system|fork|vfork|execv|execvp|execl|execlp' 'harness/spawn\.c|reports/plot\.c|tests/' \
    'children are started in one place'
echo "banned: $n_rule rules over $(wc -l <"$code") lines of code, $n_bad breaches"
[ "$n_bad" -eq 0 ] && [ -s "$code" ]
