"""What is tried with a NIC that DPDK drives in the guest: a client there meets a server on uroce here, on the NIC's tap."""

from dataclasses import dataclass

PORT = 18515  # of all the programs when they are not told another


@dataclass(frozen=True)
class Case:
    """`program` runs at both ends, with the peer's address behind it at the client. `nics`: which of pci_guest.NICS. `guest`: more
    options of uroce there. `says`: what the client's output matches."""
    name: str
    program: str
    says: str
    nics: tuple = ("virtio", "e1000e", "vmxnet3")
    guest: tuple = ()
    long: bool = False  # not in CI


PINGPONG = r"\d+ iters in"
PERFTEST = r"\n 8192 +100 "
# The frames are as long as the link's MTU lets them, and the MAC is not the device's own.
LONG = ("--mtu", "4200", "--mac", "02:00:00:00:0b:77")
ASLEEP = ("--poller", "dedicated", "--poller-idle", "interrupt")
AS_PA = ("--eal-arguments=--iova-mode=pa",)

CASES = [
    Case("pingpong", "ibv_rc_pingpong -g 1 -c -n 300", PINGPONG, long=True),
    Case("pingpong, path MTU 4096, another MAC", "ibv_rc_pingpong -g 1 -c -n 100 -m 4096 -s 65536", PINGPONG, guest=LONG),
    Case("pingpong, IOVA as PA", "ibv_rc_pingpong -g 1 -c -n 300", PINGPONG, ("e1000e",), AS_PA),
    Case("pingpong, IOVA as PA", "ibv_rc_pingpong -g 1 -c -n 300", PINGPONG, ("virtio", "vmxnet3"), AS_PA, long=True),
    Case("pingpong, without hugepages", "ibv_rc_pingpong -g 1 -c -n 300", PINGPONG, ("virtio",), ("--memory-hugepages", "false"),
         long=True),
    Case("pingpong, a poller that sleeps", "ibv_rc_pingpong -g 1 -c -n 100", PINGPONG, ("virtio", "vmxnet3"), ASLEEP, long=True),
    Case("ib_write_bw", "ib_write_bw -x 1 -n 100 -s 8192", PERFTEST, ("virtio",)),
    Case("ib_read_bw", "ib_read_bw -x 1 -n 100 -s 8192", PERFTEST, ("vmxnet3",)),
    Case("ib_send_bw", "ib_send_bw -x 1 -n 100 -s 8192", PERFTEST, ("e1000e",)),
    Case("ib_write_bw, 8 queue pairs and RSS over 2 queues", "ib_write_bw -x 1 -n 100 -s 8192 -q 8", r"\n 8192 +800 ", ("virtio",),
         ("--poller-per-device", "2")),
]

# Without an IOMMU, by uio_pci_generic.
UIO = Case("pingpong by uio_pci_generic", "ibv_rc_pingpong -g 1 -c -n 300", PINGPONG, ("e1000e",))
