#!/bin/sh
# First process of the test machine. Its last line on the console is what `cargo xtask vm-test` waits for.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
  echo "+$controller" > /sys/fs/cgroup/cgroup.subtree_control
done
# Pages of both sizes, other numbers on each node; the 1 GiB page of node 1 comes from the kernel's line.
echo 24 > /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages
echo 7 > /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages
ip link set lo up
echo "guest: Linux $(uname -r), $(nproc) CPUs, $(ls -d /sys/devices/system/node/node* | wc -l) NUMA nodes, cgroup v2"

cd /payload || poweroff -f
export KOORDLET_TEST_GUEST=1 KOORDLET_BIN=/payload/koordlet KOORDLET_LOAD_BIN=/payload/kit-load
export KOORDLET_TEST_ORACLE=/payload/oracle
./real_kernel --show-output --test-threads=1 $(cat filter)
echo "guest ended with $?"
sync
poweroff -f
