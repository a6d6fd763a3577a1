#!/usr/bin/env bash
# Boots the guest with systemd and uses the installed units in it.
# Usage: service_test.sh BUILD_DIR
set -euo pipefail
here="$(dirname "$(readlink -f "$0")")"
. "$here/rig.sh"
[[ -e $rig/ready ]] || skip "there is no guest in $rig (tests/vm/make_guest)"
build="$(readlink -f "$1")"
stage="$(mktemp --directory)"
trap 'rm -rf "$stage"' EXIT
DESTDIR="$stage/tree" cmake --install "$build" --prefix /usr \
  > "$stage/log" 2>&1 || {
  cat "$stage/log"
  exit 1
}
rm -rf "$stage/tree/usr/local"
"$here/bundle" "$stage" "$build"/bin/{preprocd,preprocctl} \
  "$build/tests/device_test"
rm "$stage"/{preprocd,preprocctl}
"$here/run_guest" -s -t 280 -d "$stage" "$here/service_job.sh"
