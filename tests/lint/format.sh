#!/bin/sh
# clang-format 14 has nothing to change. Other versions lay some lines out in their own way, so
# without version 14 the check is skipped.
set -eu
cd "$(dirname "$0")/../.."
tool=clang-format-14
command -v "$tool" >/dev/null 2>&1 || tool=clang-format
if ! "$tool" --version 2>/dev/null | grep -q 'version 14\.'; then
    echo "format: clang-format 14 is not on this machine"
    exit 77
fi
list=$(find engine kernels harness scenarios reports datasets tests '(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' ')' \
    | sort)
# shellcheck disable=SC2086 # file names of the tree have no blanks
if ! "$tool" --dry-run -Werror $list; then
    echo "format: run clang-format -i on the files above"
    exit 1
fi
echo "format: $(echo "$list" | wc -l) files are as clang-format lays them out"
