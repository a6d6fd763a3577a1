# shellcheck shell=bash
# What the programs of this folder share; sourced, not run.
# Everything that is downloaded comes from the Debian mirror that this
# machine's apt is configured with; no address is written here.

rig="${PREPROCD_RIG:-/var/tmp/preprocd-rig}"
rig_release=trixie

say() { printf 'rig: [%3ds] %s\n' "$SECONDS" "$*" >&2; }
die() {
  printf 'rig: %s\n' "$*" >&2
  exit 1
}
# One line, and the exit code that ctest takes for "skipped".
skip() {
  echo "skipped: $*"
  exit 77
}

# require PROGRAM PACKAGE...: skips unless every program is there.
require() {
  while [[ $# -gt 0 ]]; do
    command -v "$1" > /dev/null || skip "$1 is missing (package $2)"
    shift 2
  done
}

# Skips where a Debian root cannot be made.
require_root_tools() {
  [[ $(id --user) == 0 ]] || skip "making a guest needs root"
  [[ $(uname --machine) == x86_64 ]] || skip "the guest is x86_64 only"
  require mmdebstrap mmdebstrap apt-get apt
  [[ -e $rig_keyring ]] ||
    skip "$rig_keyring is missing (package debian-archive-keyring)"
}

# Skips where no guest can be made or booted.
require_guest_tools() {
  require_root_tools
  require qemu-system-x86_64 qemu-system-x86 busybox busybox-static \
    cpio cpio depmod kmod mke2fs e2fsprogs xz xz-utils
}

rig_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# The mirror as apt knows it.
rig_mirror() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(SITE)' 'Created-By: Packages' |
    grep --max-count=1 '/debian/\?$'
}

# rig_sources SUITE...: lines of a sources.list, one for each suite.
rig_sources() {
  local mirror suite
  mirror="$(rig_mirror)"
  for suite; do
    printf 'deb [signed-by=%s] %s %s main\n' "$rig_keyring" "$mirror" "$suite"
  done
}

# rig_apt SUITE COMMAND...: apt-get or apt-cache for another suite, with a
# state of its own: the machine's configuration stays as it is.
rig_apt() {
  local suite="$1" command="$2" state="$rig/apt/$1"
  shift 2
  mkdir --parents "$state/lists/partial" "$state/cache/archives/partial"
  : >> "$state/status"
  [[ -s $state/sources.list ]] || rig_sources "$suite" > "$state/sources.list"
  "$command" -o Dir::State::Lists="$state/lists" \
    -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
    -o Dir::Etc::SourceList="$state/sources.list" \
    -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null \
    -o Dir::Etc::PreferencesParts=/dev/null -o APT::Sandbox::User=root \
    -o Acquire::Retries=3 "$@"
}

# rig_key FILE... WORD...: changes when one of the files or words does.
rig_key() {
  local part
  for part; do
    if [[ -f $part ]]; then sha256sum < "$part"; else echo "$part"; fi
  done | sha256sum | cut --characters=1-16
}
