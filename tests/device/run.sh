#!/bin/sh
# On a machine with a card: correctness of the CUDA backend against the golden models, the same bits
# for any schedule, memcheck, then the speed table.
# usage: run.sh BIN_DIR [MODEL]     BIN_DIR holds test_models, test_invariance, trilemma
set -eu
bin=$1
model=${2:-}
TRILEMMA_SOURCE=${TRILEMMA_SOURCE:-$PWD}
export TRILEMMA_SOURCE
nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv,noheader
fail=0
for test in test_models test_invariance; do
    if "$bin/$test" >"/tmp/$test.log" 2>&1; then
        echo "$test: passed"
    else
        grep -vE 'RUN|OK' "/tmp/$test.log" | tail -n 20
        echo "$test: FAILED"
        fail=1
    fi
    # why: a machine without the backend would pass all the same
    ! grep -qE 'this build has|no card' "/tmp/$test.log" || { echo "$test: no cuda backend"; fail=1; }
done
if command -v compute-sanitizer >/dev/null; then
    compute-sanitizer --tool memcheck "$bin/test_models" 2>&1 | tail -n 1
fi
[ -z "$model" ] || "$bin/trilemma" bench "$model" --backend cuda --batches 1,16,64 --repeats 3
exit $fail
