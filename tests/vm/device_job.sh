# shellcheck shell=bash
# A job for run_guest: the real daemon beside real devices. Expects preprocd,
# preprocctl, device_test and their libraries beside it; FILTER, a file, may
# hold a --gtest_filter.
set -u
export LD_LIBRARY_PATH=/rig/lib PREPROCD_RUNTIME_DIR=/run/preprocd
modprobe vgem || exit 1
modprobe vivid n_devs=1 node_types=0x1 || exit 1

mkdir --parents "$PREPROCD_RUNTIME_DIR"
# Shaders are compiled under emulation, on the only device there is.
PREPROCD_GL_DEVICE=software PREPROCD_GL_STALL_MS=100000 ./preprocd \
  --runtime-dir "$PREPROCD_RUNTIME_DIR" > /tmp/daemon.log 2>&1 &
daemon=$!
for ((try = 0; try < 300; ++try)); do
  ./preprocctl status > /dev/null 2>&1 && break
  kill -0 "$daemon" 2> /dev/null || break
  sleep 0.1
done

status=0
PREPROCD_PID=$daemon PREPROCD_DEVICES=required ./device_test \
  --gtest_brief="${BRIEF:-0}" "--gtest_filter=$(cat FILTER 2> /dev/null || echo '*')" || status=1

kill -TERM "$daemon"
wait "$daemon"
code=$?
if [[ $code != 0 ]]; then
  echo "the daemon ended with $code"
  status=1
fi
if [[ $status != 0 ]]; then
  echo "== the daemon's log"
  tail --lines=60 /tmp/daemon.log
fi
exit "$status"
