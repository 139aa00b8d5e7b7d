#!/bin/sh
# Who may include whom: every #include against tests/lint/deps.txt, headers that stay in their
# folder (_int.h), and the homes of the external libraries.
set -eu
cd "$(dirname "$0")/../.."
list=$(find engine kernels harness scenarios reports datasets tests '(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' ')' | sort)
# shellcheck disable=SC2086 # file names of the tree have no blanks
awk '
function rule_of(path,    best, r) {
    best = ""
    for (r in allowed)
        if (index(path, r "/") == 1 && length(r) > length(best)) best = r
    return best
}
function bad(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; n_bad++ }
function home(pattern, where) {
    if ($2 ~ pattern && FILENAME !~ where) bad($2 " belongs to " where)
}
FILENAME == "tests/lint/deps.txt" {
    if ($0 ~ /^#/ || $0 !~ /:/) next
    i = index($0, ":")
    allowed[substr($0, 1, i - 1)] = substr($0, i + 1) " "
    next
}
/^ *# *include/ {
    n++
    sub(/^ *# *include */, "#include ")
    if ($2 ~ /^</) {
        home("^<sqlite3", "^(reports/store|tests/)")
        home("^<curl/", "^(harness/(hub|http)|tests/)")
        home("^<(sys/socket|netinet/|arpa/|netdb|microhttpd)", "^(harness/|engine/serve/|tests/|reports/plot\\.c)")
        home("^<cmocka", "^tests/")
        home("^<(immintrin|arm_neon|cuda)", "^kernels/")
        next
    }
    target = substr($2, 2, length($2) - 2)
    if (target !~ /\//) { # generated: build_info.h and embedded files
        if (target !~ /^build_info\.h$|\.inc$/) bad("\"" target "\" is not written from the root")
        next
    }
    from = FILENAME
    sub(/\/[^\/]*$/, "", from)
    to = target
    sub(/\/[^\/]*$/, "", to)
    if (target ~ /_int\.h$/ && from != to) bad("\"" target "\" stays in its folder")
    own = rule_of(FILENAME)
    other = rule_of(target)
    if (own == "") bad("no rule for this folder")
    if (other == "") bad("\"" target "\" lies in no folder of the rules")
    if (own == other || allowed[own] ~ /^ \*/) next
    if (index(allowed[own], " " other " ") == 0 && index(allowed[own], " " target " ") == 0)
        bad(own " may not include \"" target "\"")
}
END {
    printf "deps: %d includes checked, %d breaches\n", n, n_bad
    exit n_bad > 0 || n == 0
}' tests/lint/deps.txt $list
