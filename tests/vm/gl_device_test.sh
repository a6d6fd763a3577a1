#!/usr/bin/env bash
# Boots the guest and runs gl_device_test in it.
# Usage: gl_device_test.sh BUILD_DIR [GTEST_FILTER]
set -euo pipefail
here="$(dirname "$(readlink -f "$0")")"
. "$here/rig.sh"
[[ -e $rig/ready ]] || skip "there is no guest in $rig (tests/vm/make_guest)"
build="$(readlink -f "$1")"
stage="$(mktemp --directory)"
trap 'rm -rf "$stage"' EXIT
"$here/bundle" "$stage" "$build/tests/gl_device_test"
[[ $# -lt 2 ]] || echo "$2" > "$stage/FILTER"
"$here/run_guest" -t 280 -d "$stage" "$here/gl_job.sh"
