#!/usr/bin/env bash
# What boot_test.sh does inside the container, as root.
set -euo pipefail

failed=0
fail() {
  echo "FAILED: $*"
  failed=1
}
finish() {
  local status=$?
  if [[ $failed != 0 || $status != 0 ]]; then
    systemctl status --no-pager --full 'preprocd*' || true
    journalctl --no-pager --unit=preprocd.service || true
  fi
  [[ $failed == 0 ]] || exit 1
}
trap finish EXIT

state_of() { systemctl show --value --property="$1" "${2:-preprocd.service}"; }
expect() { # WHAT WANTED FOUND
  [[ $3 == "$2" ]] || fail "$1: $3 instead of $2"
}
# Waits until "systemctl show" has the value; the bound is far above need.
await() { # PROPERTY VALUE
  local end=$((SECONDS + 30))
  until [[ $(state_of "$1") == "$2" ]]; do
    if ((SECONDS > end)); then
      fail "$1 did not become $2: $(state_of "$1")"
      return
    fi
    sleep 0.05
  done
}

head --bytes=$((64 * 48 * 3)) /dev/urandom > /tmp/in.raw
chmod 644 /tmp/in.raw
as() { # USER COMMAND...
  local user=$1
  shift
  setpriv --reuid="$user" --regid="$user" --init-groups "$@"
}
convert_as() { # USER
  as "$1" preprocctl convert /tmp/in.raw --raw rgb:64x48 --size 32x24 \
    -o "/tmp/$1.npy"
}
step() { echo "== $*"; }

step "sockets before the daemon"
systemctl start preprocd-{grpc,direct,admin}.socket
expect "daemon before the first client" inactive "$(state_of ActiveState)"
expect "directory" "750 root preprocd" \
  "$(stat --format='%a %U %G' /run/preprocd)"
expect "grpc.sock" "660 root preprocd" \
  "$(stat --format='%a %U %G' /run/preprocd/grpc.sock)"
expect "direct.sock" "660 root preprocd" \
  "$(stat --format='%a %U %G' /run/preprocd/direct.sock)"
expect "admin.sock" "600 root root" \
  "$(stat --format='%a %U %G' /run/preprocd/admin.sock)"

step "the first client starts it"
convert_as member || fail "convert as a member of the group"
[[ -s /tmp/member.npy ]] || fail "no result"
expect "daemon" active "$(state_of ActiveState)"
expect "status text" serving "$(state_of StatusText)"
pid="$(state_of MainPID)"
expect "user" preprocd "$(ps --no-headers -o user:32 --pid "$pid")"
expect "capabilities" 0000000000000000 \
  "$(sed --quiet 's/^CapEff:\t//p' "/proc/$pid/status")"
expect "seccomp filter" 2 \
  "$(sed --quiet 's/^Seccomp:\t//p' "/proc/$pid/status")"

step "who may not"
convert_as stranger 2> /dev/null && fail "a stranger may convert"
as member preprocctl status > /dev/null 2>&1 && fail "a member may ask admin"
preprocctl status > /dev/null || fail "root may not ask admin"

step "reload"
systemctl reload preprocd || fail "reload"
expect "daemon after reload" "$pid" "$(state_of MainPID)"
convert_as member || fail "convert after reload"

step "a crash: the sockets stay, the next client is served"
inode="$(stat --format=%i /run/preprocd/direct.sock)"
kill -KILL "$pid"
await NRestarts 1
convert_as member || fail "convert after a crash"
expect "socket's inode" "$inode" "$(stat --format=%i /run/preprocd/direct.sock)"

step "a hang: the watchdog ends it"
mkdir --parents /run/systemd/system/preprocd.service.d
printf '[Service]\nWatchdogSec=1\n' \
  > /run/systemd/system/preprocd.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart preprocd
pid="$(state_of MainPID)"
kill -STOP "$pid"
await NRestarts 1
convert_as member || fail "convert after a hang"
[[ $(state_of MainPID) != "$pid" ]] || fail "the same process"

step "stop"
systemctl stop preprocd
expect "exit status" 0 "$(state_of ExecMainStatus)"
expect "result" success "$(state_of Result)"
[[ -S /run/preprocd/direct.sock ]] || fail "the socket went with the service"
convert_as member || fail "activation after stop"
systemctl stop preprocd-{grpc,direct,admin}.socket preprocd
expect "exit status" 0 "$(state_of ExecMainStatus)"
[[ ! -e /run/preprocd/direct.sock ]] || fail "direct.sock is still there"

journalctl --no-pager --unit=preprocd.service --output=cat |
  grep daemon.start | head --lines=1
