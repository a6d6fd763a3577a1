# shellcheck shell=bash
# A job for run_guest -s: the installed units beside real devices. Expects
# tree (what a package would install), lib (libraries that the guest lacks),
# and device_test beside it.
set -euo pipefail
export PREPROCD_RUNTIME_DIR=/run/preprocd

failed=0
fail() {
  echo "FAILED: $*"
  failed=1
}
finish() {
  local status=$?
  if [[ $failed != 0 || $status != 0 ]]; then
    systemctl status --no-pager --full 'preprocd*' || true
    journalctl --no-pager --unit=preprocd.service --lines=80 || true
    exit 1
  fi
}
trap finish EXIT

state_of() { systemctl show --value --property="$1" preprocd.service; }
expect() { # WHAT WANTED FOUND
  [[ $3 == "$2" ]] || fail "$1: $3 instead of $2"
}
# Waits until "systemctl show" has the value; the bound is far above need.
await() { # PROPERTY VALUE
  local end=$((SECONDS + 60))
  until [[ $(state_of "$1") == "$2" ]]; do
    if ((SECONDS > end)); then
      fail "$1 did not become $2: $(state_of "$1")"
      return
    fi
    sleep 0.2
  done
}
# Asks the daemon how it is, once: it takes seconds under emulation.
ask() { answer="$(preprocctl status)" || fail "no answer"; }
# What it said about an allocator: "+ udmabuf /dev/udmabuf".
allocator() { # NAME
  grep "^  [+-] $1 " <<< "$answer" | xargs
}
# Restarts with lines in the unit's drop-in; none: as shipped.
restart_with() { # LINE...
  local folder=/run/systemd/system/preprocd.service.d
  mkdir --parents "$folder"
  rm --force "$folder/test.conf"
  [[ $# == 0 ]] || printf '%s\n' '[Service]' "$@" > "$folder/test.conf"
  systemctl daemon-reload
  systemctl reset-failed preprocd.service
  systemctl restart preprocd.service
}
step() { echo "== $* (at ${SECONDS} s)"; }

step "install"
cp --archive /rig/tree/usr/. /usr/
cp --archive /rig/tree/etc/. /etc/
cp --archive /rig/lib/. /usr/lib/x86_64-linux-gnu/
systemd-sysusers
systemd-tmpfiles --create preprocd.conf
modprobe vgem
modprobe vivid n_devs=1 node_types=0x1
udevadm control --reload
udevadm trigger --settle --subsystem-match=dma_heap --subsystem-match=misc \
  --subsystem-match=drm --subsystem-match=video4linux
# The only GL device here is an emulated processor.
mkdir --parents /run/systemd/system/preprocd.service.d
printf '%s\n' '[Service]' 'Environment=PREPROCD_GL_DEVICE=software' \
  'Environment=PREPROCD_GL_STALL_MS=100000' \
  > /run/systemd/system/preprocd.service.d/gl.conf
systemctl daemon-reload

step "whose the nodes are"
expect /dev/dma_heap/system "660 video" \
  "$(stat --format='%a %G' /dev/dma_heap/system)"
expect /dev/udmabuf "660 kvm" "$(stat --format='%a %G' /dev/udmabuf)"

step "the first client starts the daemon, which finds its allocators"
systemctl start preprocd-{grpc,direct,admin}.socket
ask
expect "udmabuf" "+ udmabuf /dev/udmabuf" "$(allocator udmabuf)"
expect "heap" "+ dma_heap /dev/dma_heap/system" "$(allocator dma_heap)"
pid="$(state_of MainPID)"
expect "capabilities" 0000000000000000 \
  "$(sed --quiet 's/^CapEff:\t//p' "/proc/$pid/status")"

step "devices through the sandbox"
PREPROCD_PID="$pid" PREPROCD_DEVICES=required /rig/device_test \
  --gtest_brief=1 \
  --gtest_filter='*ConvertTest*cpu:*ConvertTest*heap_gl:*Serves*:DeadClientTest*' ||
  fail "device_test"
expect "the same process" "$pid" "$(state_of MainPID)"

step "the device policy"
# Root, without a file mode to stop it, in the service's control group.
may_open() { # NODE
  local group
  group="/sys/fs/cgroup$(state_of ControlGroup)"
  bash -c "echo \$\$ > '$group/cgroup.procs'; exec 3<> '$1'" 2> /dev/null
}
for node in /dev/dma_heap/system /dev/udmabuf /dev/dri/renderD128 \
  /dev/dri/card0 /dev/video0 /dev/null; do
  may_open "$node" || fail "$node is closed"
done
for node in /dev/vda /dev/mem /dev/ttyS0 /dev/hvc0; do
  may_open "$node" && fail "$node is open"
done

step "why an allocator is missing"
chmod 600 /dev/dma_heap/system
ask
expect "by mode" "- dma_heap /dev/dma_heap: Permission denied" \
  "$(allocator dma_heap)"
chmod 660 /dev/dma_heap/system
restart_with DeviceAllow= DeviceAllow='/dev/udmabuf rw'
ask
expect "by policy" "- dma_heap /dev/dma_heap: Operation not permitted" \
  "$(allocator dma_heap)"
expect "udmabuf beside it" "+ udmabuf /dev/udmabuf" "$(allocator udmabuf)"
restart_with PrivateDevices=yes
ask
expect "by namespace" "- udmabuf /dev/udmabuf: No such file or directory" \
  "$(allocator udmabuf)"

step "beyond its memory it is ended and started again"
restart_with MemoryMax=150M MemorySwapMax=0 WatchdogSec=5
ask
expect "open again" "+ dma_heap /dev/dma_heap/system" "$(allocator dma_heap)"
restarts="$(state_of NRestarts)"
PREPROCD_PID="$(state_of MainPID)" PREPROCD_MEMORY_MAX=$((150 << 20)) \
  /rig/device_test --gtest_brief=1 --gtest_filter='MemoryLimitTest*' ||
  fail "device_test"
await NRestarts $((restarts + 1))
await ActiveState active
ask
[[ $(journalctl --no-pager --unit=preprocd.service --output=cat) == \
  *oom-kill* ]] || fail "not ended by the kernel"

step "the watchdog"
restarts="$(state_of NRestarts)"
kill -STOP "$(state_of MainPID)"
await NRestarts $((restarts + 1))
await ActiveState active
ask

step "stop"
systemctl stop preprocd-{grpc,direct,admin}.socket preprocd.service
expect "result" success "$(state_of Result)"
