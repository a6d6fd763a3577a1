# shellcheck shell=bash
# A job for run_guest: the GL backend on real dma-bufs. Expects gl_device_test
# and its libraries beside it; FILTER, a file, may hold a --gtest_filter.
set -u
modprobe vgem || exit 1
modprobe vivid n_devs=1 node_types=0x1 || exit 1
LD_LIBRARY_PATH=/rig/lib exec ./gl_device_test \
  "--gtest_filter=$(cat FILTER 2> /dev/null || echo '*')"
