#!/bin/sh
# Shell scripts: sh, set -eu, under 80 lines, and nothing that shellcheck complains about.
set -eu
cd "$(dirname "$0")/../.."
list=$(find . -name '*.sh' ! -path './build/*' ! -path './.git/*' | sort)
for f in ./demo ./check; do
    [ -f "$f" ] && list="$list $f"
done
n=0
n_bad=0
for f in $list; do
    n=$((n + 1))
    head -n 1 "$f" | grep -q '^#!/bin/sh$' || { echo "$f: begins with no #!/bin/sh"; n_bad=$((n_bad + 1)); }
    grep -q '^set -eu$' "$f" || { echo "$f: no set -eu"; n_bad=$((n_bad + 1)); }
    [ "$(wc -l <"$f")" -lt 80 ] || { echo "$f: 80 lines or more"; n_bad=$((n_bad + 1)); }
done
if command -v shellcheck >/dev/null 2>&1; then
    # shellcheck disable=SC2086 # file names of the tree have no blanks
    shellcheck $list || n_bad=$((n_bad + 1))
else
    echo "shell: shellcheck is not on this machine; its part is left out"
fi
echo "shell: $n scripts, $n_bad breaches"
[ "$n_bad" -eq 0 ] && [ "$n" -gt 0 ]
