#!/bin/sh
# Installs a build into a folder and uses it from there: what stands where, and that it finds its
# scenarios and manifests.
# usage: install.sh BUILD_DIR
set -eu
build=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cmake --install "$build" --prefix "$root/usr" >/dev/null
fail() { echo "$1" >&2; exit 1; }
for f in bin/trilemma share/trilemma/scenarios/demo.yaml share/trilemma/datasets/smollm2-135m.json \
    share/man/man1/trilemma.1 share/doc/trilemma/README.md share/doc/trilemma/LICENSE; do
    [ -f "$root/usr/$f" ] || fail "missing: $f"
done
[ -x "$root/usr/bin/trilemma" ] || fail "trilemma is not executable"
cd "$root" # away from the source tree
TRILEMMA_SHARE=$root/usr/share/trilemma "$root/usr/bin/trilemma" run scenarios/demo.yaml --print |
    grep -q chat-base-vs-w4 || fail "the installed scenario is not found"
TRILEMMA_SHARE=$root/usr/share/trilemma TRILEMMA_CACHE=$root/cache \
    "$root/usr/bin/trilemma" fetch --json | grep -q smollm2-135m || fail "no manifests are found"
"$root/usr/bin/trilemma" --version | grep -q trilemma || fail "no version"
echo "installed and used from $root"
