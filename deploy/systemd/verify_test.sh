#!/usr/bin/env bash
# The unit files as systemd reads them: no warning, sandbox not weaker than it
# was, user and directory files valid. Exit 77 where systemd's tools are missing.
# Usage: verify_test.sh PREPROCD_PROGRAM
set -euo pipefail

here="$(dirname "$(readlink -f "$0")")"
program="$(readlink -f "$1")"
# Of "systemd-analyze security": 0 is closed, 100 is open.
max_exposure=20

for tool in systemd-analyze systemd-sysusers systemd-tmpfiles; do
  if ! command -v "$tool" > /dev/null; then
    echo "skipped: $tool is not installed"
    exit 77
  fi
done

stage="$(mktemp --directory)"
trap 'rm -rf "$stage"' EXIT
cp "$here"/*.service "$here"/*.socket "$stage/"
# The program is not installed here, and verify wants to find it.
grep --quiet '^ExecStart=/usr/bin/preprocd ' "$stage/preprocd.service"
sed --in-place "s|^ExecStart=/usr/bin/preprocd |ExecStart=$program |" \
  "$stage/preprocd.service"

failed=0
fail() {
  echo "FAILED: $*"
  failed=1
}

# It also loads what the units pull in; other packages' warnings are not ours.
messages="$(systemd-analyze verify --man=no --recursive-errors=no \
  "$stage"/*.service "$stage"/*.socket 2>&1)" || fail "systemd-analyze verify"
ours="$(grep --ignore-case preprocd <<< "$messages" || true)"
if [[ -n $ours ]]; then
  fail "verify says: $ours"
fi

systemd-analyze security --offline=yes --threshold="$max_exposure" \
  --no-pager "$stage/preprocd.service" > "$stage/security" 2>&1 || {
  cat "$stage/security"
  fail "the sandbox is weaker than $max_exposure"
}
tail --lines=1 "$stage/security"

systemd-sysusers --dry-run "$here/preprocd.sysusers" > "$stage/users" 2>&1 || {
  cat "$stage/users"
  fail "preprocd.sysusers"
}

mkdir "$stage/root"
mkdir "$stage/root/etc"
printf 'root:x:0:0::/:/bin/sh\n' > "$stage/root/etc/passwd"
printf 'root:x:0:\npreprocd:x:0:\n' > "$stage/root/etc/group"
systemd-tmpfiles --create --root="$stage/root" "$here/preprocd.tmpfiles" ||
  fail "preprocd.tmpfiles"
mode="$(stat --format=%a "$stage/root/run/preprocd")"
[[ $mode == 750 ]] || fail "/run/preprocd has mode $mode"

# What the daemon looks for and what the units pass must be the same names.
for name in grpc direct admin; do
  unit="$here/preprocd-$name.socket"
  grep --quiet "^FileDescriptorName=$name\$" "$unit" || fail "$unit: name"
  grep --quiet "=/run/preprocd/$name.sock\$" "$unit" || fail "$unit: path"
done

# The shipped configuration is one that the daemon accepts: a wrong backend is
# found after it was read.
status=0
"$program" --config "$here/preprocd.toml" --backend none-such \
  --runtime-dir "$stage/run" > "$stage/daemon" 2>&1 || status=$?
grep --quiet none-such "$stage/daemon" && [[ $status == 2 ]] || {
  cat "$stage/daemon"
  fail "preprocd.toml"
}
exit "$failed"
