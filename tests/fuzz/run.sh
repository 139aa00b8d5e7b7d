#!/bin/sh
# Builds the libFuzzer targets and runs each for some seconds from its committed corpus.
# usage: run.sh SECONDS     prints "fuzz: NAME ... Passed " or "fuzz: NAME ***Failed"
set -eu
cd "$(dirname "$0")/../.."
seconds=$1
if ! cmake --preset fuzz >build/fuzz-configure.log 2>&1; then
    cat build/fuzz-configure.log
    echo "fuzz: configure ***Failed"
    exit 1
fi
names=$(for f in tests/fuzz/fuzz_*.c; do basename "$f" .c; done)
# shellcheck disable=SC2086 # the names are words of their own
if ! cmake --build --preset fuzz --target $names >build/fuzz-build.log 2>&1; then
    tail -n 40 build/fuzz-build.log
    echo "fuzz: build ***Failed"
    exit 1
fi
rc=0
for name in $names; do
    work=build/fuzz/found/$name
    mkdir -p "$work"
    if build/fuzz/tests/"$name" -max_total_time="$seconds" -rss_limit_mb=3000 -timeout=20 \
        -artifact_prefix="$work/" "$work" "tests/fuzz/corpus/$name" >"$work.log" 2>&1; then
        echo "fuzz: $name $(sed -n 's/^Done \([0-9]* runs\).*/\1/p' "$work.log") Passed "
    else
        tail -n 30 "$work.log"
        echo "fuzz: $name ***Failed"
        rc=1
    fi
done
exit $rc
