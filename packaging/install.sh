#!/bin/sh
# Installs the packages of packaging/debian-packages.txt that are missing.
# usage: install.sh KIND...   (kinds: build, run, check)
set -eu
list=$(dirname "$0")/debian-packages.txt
missing=
for kind in "$@"; do
    # shellcheck disable=SC2013 # one name a line, without blanks
    for package in $(awk -v k="$kind" '$1 == k { print $2 }' "$list"); do
        state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
        [ "$state" = "install ok installed" ] || missing="$missing $package"
    done
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
    echo "These packages are missing; install them as root and start again:" >&2
    echo "  apt-get install$missing" >&2
    exit 4
fi
echo "+ apt-get install$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086 # the names are words of their own
apt-get install -y -qq --no-install-recommends $missing >/dev/null
