"""What the kernel's nvme-rdma host does with a target: bash scripts for the guest, each in a shell of its own that ends at the
first command that fails.

$TARGET is the target's address, $NQN its subsystem with two namespaces: 1 of 64 MiB in blocks of 4096 bytes, in memory, and 2 of
16 MiB in blocks of 512, a file. What stands in PRELUDE may be used. /dev/nvme0 is what is connected first, $NS1 and $NS2 are its disks.
"""

from dataclasses import dataclass

NQN = "nqn.2026-01.test:disks"
HOST_NQN = "nqn.2014-08.org.nvmexpress:uuid:9e2e2b5a-5ac5-4f6e-8bd5-6d3ba2a0f001"
HOST_ID = "9e2e2b5a-5ac5-4f6e-8bd5-6d3ba2a0f001"

PRELUDE = r"""
set -E; trap 'echo "failed: $BASH_COMMAND"' ERR
host="--hostnqn=$HOST_NQN --hostid=$HOST_ID"
until_true() {
  for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
  echo "never true: $*"; return 1
}
gone() { ! ls /sys/class/nvme/nvme* ; }
# The disk of a namespace. The kernel numbers its disks as it happens to find the namespaces.
disk() {
  local at
  for at in /sys/block/nvme*; do [ "$(cat "$at/nsid" 2>/dev/null)" = "$1" ] && [ -b "/dev/${at##*/}" ] && echo "/dev/${at##*/}" && return; done
  return 1
}
connect() {
  nvme connect -t rdma -a "$TARGET" -s 4420 -n $NQN $host "$@"
  until_true disk 1; until_true disk 2
  NS1=$(disk 1) NS2=$(disk 2)
}
leave() { nvme disconnect -n $NQN; until_true gone; }
# The standard output of a command says so.
says() {
  local wanted=$1 said; shift
  said=$("$@") || { echo "$* fails: $said"; return 1; }
  grep -Eq -- "$wanted" <<<"$said" || { echo "$* does not say '$wanted': $said"; return 1; }
}
# A command of nvme-cli ends with this status (type and code, hexadecimal).
status() {
  local wanted=$1 said; shift
  said=$("$@" 2>&1) && { echo "$* succeeds: $(head -c 300 <<<"$said")"; return 1; }
  local code; code=$(grep -Eo '\(0x[0-9a-f]+\)' <<<"$said" | tail -1 | tr -d '()')
  (( (code & 0x7ff) == wanted )) || { echo "$* ends with ${code:-no status}, not $wanted: $said"; return 1; }
}
verify() { fio --name=verify --filename="$1" --ioengine=libaio --direct=1 --verify=crc32c --verify_fatal=1 "${@:2}" >/tmp/fio 2>&1 ||
  { cat /tmp/fio; return 1; }; }
copy_and_compare() {
  head -c 1M /dev/urandom >/tmp/data
  dd if=/tmp/data of="$1" bs=64k oflag=direct status=none
  dd if="$1" of=/tmp/back bs=64k count=16 iflag=direct status=none
  cmp /tmp/data /tmp/back
}
"""


@dataclass(frozen=True)
class Case:
    name: str
    script: str
    gid: str = "v4"
    impairment: str = ""     # of netem
    in_capsule: int = 4096   # bytes that the target takes in a command's capsule
    # Takes minutes: only in the suite of long runs.
    long: bool = False
    # What the kernel's own target does otherwise, if it does.
    not_with_kernel: str = ""
    # When the script has made /tmp/busy the target is killed, and started again.
    killed: bool = False
    # When the script has made /tmp/busy the target gets a third namespace, and loses it when it has made /tmp/seen.
    grows: bool = False


CASES = [
    Case("discover", r"""
        says "subnqn: +$NQN" nvme discover -t rdma -a "$TARGET" -s 4420 $host
        says 'trtype: +rdma' nvme discover -t rdma -a "$TARGET" -s 4420 $host
        """),
    Case("connect, one queue", r"""
        connect -i 1
        says 1 cat /sys/class/nvme/nvme0/queue_count | grep -q 2
        copy_and_compare $NS1; copy_and_compare $NS2
        leave; connect -i 1; leave
        """),
    Case("connect, several queues", r"""
        connect -i 4 -W 4 -Q 32
        (( $(cat /sys/class/nvme/nvme0/queue_count) >= 3 ))
        copy_and_compare $NS1; copy_and_compare $NS2
        leave
        """),
    *(Case(f"in-capsule data of {size}", rf"""
        connect
        says 'ioccsz +: {(64 + size) // 16}$' nvme id-ctrl /dev/nvme0
        copy_and_compare $NS1; copy_and_compare $NS2
        verify $NS2 --rw=randwrite --bsrange=512-16k --size=2m --iodepth=8
        leave
        """, in_capsule=size, not_with_kernel="it takes one page, or what its port says") for size in (0, 8192)),
    Case("identify and log pages", r"""
        connect
        says "$NS1" nvme list
        says "$NQN" nvme list-subsys
        says "subnqn +: $NQN" nvme id-ctrl /dev/nvme0
        says 'nn +: ' nvme id-ctrl /dev/nvme0
        says 'nsze +: 0x4000$' nvme id-ns /dev/nvme0 -n 1
        says 'nsze +: 0x8000$' nvme id-ns /dev/nvme0 -n 2
        says 'lbads:12' nvme id-ns /dev/nvme0 -n 1
        says 'uuid' nvme ns-descs /dev/nvme0 -n 1
        says '\[ +1\]:0x2' nvme list-ns /dev/nvme0
        says 'critical_warning[[:space:]]*: 0' nvme smart-log /dev/nvme0
        before=$(nvme smart-log /dev/nvme0 -o json | python3 -c 'import json,sys; print(json.load(sys.stdin)["host_write_commands"])')
        copy_and_compare $NS1
        after=$(nvme smart-log /dev/nvme0 -o json | python3 -c 'import json,sys; print(json.load(sys.stdin)["host_write_commands"])')
        (( after > before ))
        says 'optimized' nvme ana-log /dev/nvme0
        says 'Error Log Entries' nvme error-log /dev/nvme0
        nvme fw-log /dev/nvme0 >/dev/null
        nvme effects-log /dev/nvme0 >/dev/null
        nvme changed-ns-list-log /dev/nvme0 >/dev/null
        for feature in 0x06 0x07 0x0b 0x0f; do nvme get-feature /dev/nvme0 -f $feature >/dev/null; done
        leave
        """),
    Case("commands", r"""
        connect
        head -c 8192 /dev/urandom >/tmp/data
        nvme write $NS1 -s 3 -c 1 -z 8192 -d /tmp/data
        nvme compare $NS1 -s 3 -c 1 -z 8192 -d /tmp/data
        status 0x285 nvme compare $NS1 -s 4 -c 1 -z 8192 -d /tmp/data
        nvme verify $NS1 -s 3 -c 1
        nvme flush $NS1 -n 1
        nvme write-zeroes $NS1 -s 4 -c 0
        nvme read $NS1 -s 3 -c 1 -z 8192 -d /tmp/back >/dev/null
        cmp -n 4096 /tmp/data /tmp/back; cmp -n 4096 -i 4096:0 /tmp/back /dev/zero
        nvme dsm $NS1 -n 1 -d -s 3 -b 1 -a 0
        nvme read $NS1 -s 3 -c 0 -z 4096 -d /tmp/back >/dev/null
        cmp -n 4096 /tmp/back /dev/zero || cmp -n 4096 /tmp/back /tmp/data
        nvme write $NS1 -s 9 -c 1 -z 8192 -d /tmp/data --force-unit-access
        rm /tmp/back; nvme read $NS1 -s 9 -c 1 -z 8192 -d /tmp/back >/dev/null; cmp /tmp/data /tmp/back
        leave
        """, not_with_kernel="it has neither Compare nor Verify"),
    Case("wrong fields", r"""
        connect
        status 0x080 nvme io-passthru $NS1 -o 2 -n 1 --cdw10=0x4000 -l 4096 -r
        status 0x080 nvme io-passthru $NS1 -o 2 -n 1 --cdw10=0x3fff --cdw12=1 -l 8192 -r
        status 0x080 nvme io-passthru $NS1 -o 1 -n 1 --cdw11=0xffffffff -l 4096 -w -i /dev/zero
        status 0x001 nvme io-passthru $NS1 -o 0x7e -n 1
        status 0x001 nvme admin-passthru /dev/nvme0 -o 0xc5
        status 0x00b nvme admin-passthru /dev/nvme0 -o 6 -n 0xfffffff0 --cdw10=0 -l 4096 -r
        status 0x109 nvme get-log /dev/nvme0 -i 0xb0 -l 512
        status 0x002 nvme get-feature /dev/nvme0 -f 0x7f
        copy_and_compare $NS1
        leave
        """, not_with_kernel="it says Internal Error for blocks out of range"),
    Case("fio, 4 KiB at random", r"""
        connect
        verify $NS1 --rw=randwrite --bs=4k --size=8m --iodepth=32
        leave
        """),
    Case("fio, 128 KiB in sequence", r"""
        connect
        verify $NS1 --rw=write --bs=128k --size=16m --iodepth=32
        leave
        """),
    Case("file system", r"""
        connect
        mkfs.ext4 -q $NS1
        mkdir -p /tmp/mnt; mount $NS1 /tmp/mnt
        cp -r /etc /tmp/mnt/tree; sync
        umount /tmp/mnt
        leave; connect
        e2fsck -fn $NS1 >/tmp/fsck
        mount -o ro $NS1 /tmp/mnt
        diff -r --no-dereference /etc /tmp/mnt/tree
        umount /tmp/mnt
        leave
        """),
    Case("reset", r"""
        connect
        for _ in 1 2 3; do
          nvme reset /dev/nvme0
          until_true grep -q live /sys/class/nvme/nvme0/state
          copy_and_compare $NS1
        done
        leave
        """),
    Case("killed under write load", r"""
        connect --reconnect-delay=1 --keep-alive-tmo=5 --ctrl-loss-tmo=300
        (sleep 3; touch /tmp/busy) &
        fio --name=load --filename=$NS1 --ioengine=libaio --direct=1 --rw=write --bs=16k --size=16m --iodepth=8 \
          --time_based --runtime=25 >/tmp/fio || { cat /tmp/fio; exit 1; }
        until_true grep -q live /sys/class/nvme/nvme0/state
        copy_and_compare $NS1
        leave
        """, killed=True),
    Case("a namespace comes and goes", r"""
        connect
        touch /tmp/busy
        until_true disk 3
        copy_and_compare $(disk 3)
        touch /tmp/seen
        without_third() { ! disk 3; }; until_true without_third
        copy_and_compare $NS1
        leave
        """, grows=True),
    Case("IPv6", r"""
        connect
        verify $NS1 --rw=randwrite --bs=4k --size=2m --iodepth=8
        leave
        """, gid="v6"),
    # Now and then rxe executes a registration again when it sends again, finds the region in use, and breaks its queue pair
    # ("mr->lkey = ... not free"): the host starts its queues anew, and no command is lost.
    Case("loss of 2 %", r"""
        connect --reconnect-delay=1
        verify $NS1 --rw=randwrite --bs=4k --size=2m --iodepth=32
        verify $NS2 --rw=write --bs=128k --size=4m --iodepth=8
        leave
        """, impairment="loss 2%"),
    Case("fio, mixed, long", r"""
        connect -i 4 -W 4
        for i in 1 2 3; do
          verify $NS1 --rw=randrw --bsrange=4k-256k --size=48m --iodepth=32 --loops=3
          verify $NS2 --rw=randrw --bsrange=512-64k --size=12m --iodepth=32 --loops=3
        done
        leave
        """, long=True),
    Case("loss of 2 %, long", r"""
        connect --reconnect-delay=1
        verify $NS1 --rw=randrw --bsrange=4k-128k --size=32m --iodepth=32 --loops=3
        leave
        """, impairment="loss 2%", long=True),
]
