#!/usr/bin/env bash
# Boots the units as a package would install them and uses the daemon as a
# member of its group would. Exit 77 where no container can be booted.
# Usage: boot_test.sh BUILD_DIR
set -euo pipefail

here="$(dirname "$(readlink -f "$0")")"
build="$(readlink -f "$1")"
tree="$(mktemp --directory)"
trap 'rm -rf "$tree"' EXIT

DESTDIR="$tree" cmake --install "$build" --prefix /usr > "$tree/log" 2>&1 || {
  cat "$tree/log"
  exit 1
}
rm -rf "$tree/usr/local"
# Two people: one in the group, one not.
cat > "$tree/usr/lib/sysusers.d/people.conf" << 'END'
u member -
u stranger -
m member preprocd
END
"$here/run_container" -t 120 "$tree" "$here/boot_script.sh"
