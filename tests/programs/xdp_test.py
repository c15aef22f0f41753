#!/usr/bin/env python3
"""Beside the kernel by AF_XDP: RoCE comes by a program of ours on the interface, and all else is the kernel's.

    tests/programs/xdp_test.py LIBRARY_FOLDER UROCE [SANITIZER_RUNTIME]
"""

import json
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

import programs
from kernel_tcp import TCP_CLIENT, TCP_SERVER, sent_digest
from namespaces import SIDES
from ports import LINK, UROCE, TestCase, main

MTU = 3400
TAP = "uroce-tap"
BRIDGE = "uroce-bridge"
ADDRESSES = {"left": ("192.0.2.1", "2001:db8::1"), "right": ("192.0.2.2", "2001:db8::2")}
BRIDGE_ADDRESSES = {"left": "198.51.100.1", "right": "198.51.100.2"}
GID_INDEX = {"v4": "1", "v6": "2"}

# bpf(2). What it returns, or a number of the attributes that the kernel has filled in.
BPF_CALL = """
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def bpf(command, attributes, answer=None):
    buffer = ctypes.create_string_buffer(attributes, 128)
    made = libc.syscall(321, command, buffer, 128)
    if made < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    return made if answer is None else struct.unpack_from("<I", buffer, 4 * answer)[0]
"""

# A program that passes everything on: BPF_PROG_LOAD, BPF_LINK_CREATE. It stays as long as its link's descriptor is open.
FOREIGN = BPF_CALL + """
instructions = ctypes.create_string_buffer(struct.pack("<BBhi", 0xb7, 0, 0, 2) + struct.pack("<BBhi", 0x95, 0, 0, 0), 16)
license = ctypes.create_string_buffer(b"GPL")
program = bpf(5, struct.pack("<IIQQIIQII16s", 6, 2, ctypes.addressof(instructions), ctypes.addressof(license), 0, 0, 0, 0, 0, b"not_uroce"))
link = bpf(28, struct.pack("<IIII", program, socket.if_nametoindex(sys.argv[1]), 37, 0))
print("attached", flush=True)
sys.stdin.read()
"""

# XDP's result for a frame by the program of a number: BPF_PROG_GET_FD_BY_ID, BPF_PROG_TEST_RUN.
EXECUTE = BPF_CALL + """
program = bpf(13, struct.pack("<III", int(sys.argv[1]), 0, 0))
frame = bytes.fromhex(sys.argv[2])
data = ctypes.create_string_buffer(frame, len(frame))
out = ctypes.create_string_buffer(4096)
print(bpf(10, struct.pack("<IIIIQQII", program, 0, len(frame), 4096, ctypes.addressof(data), ctypes.addressof(out), 1, 0), answer=1))
"""
XDP_PASS, XDP_REDIRECT = 2, 4


def udp(port):
    return struct.pack(">HHHH", 0xC000, port, 8 + 16, 0) + bytes(16)


def ipv4(to, port=4791, protocol=17, fragment=0x4000, options=b""):
    header = struct.pack(">BBHHHBBH4s4s", 0x45 + len(options) // 4, 0, 20 + len(options) + 24, 1, fragment, 64, protocol, 0,
                         socket.inet_aton("192.0.2.2"), socket.inet_aton(to))
    return bytes(12) + b"\x08\x00" + header + options + udp(port)


def ipv6(to, port=4791, protocol=17):
    header = struct.pack(">IHBB16s16s", 6 << 28, 24, protocol, 64, socket.inet_pton(socket.AF_INET6, "2001:db8::2"), socket.inet_pton(socket.AF_INET6, to))
    return bytes(12) + b"\x86\xdd" + header + udp(port)


def tagged(frame, vlan=5):
    return frame[:12] + struct.pack(">HH", 0x8100, vlan) + frame[12:]


class Xdp(TestCase):
    def setUp(self):
        super().setUp()
        self.need("af-xdp")
        self.net = self.namespaces(mtu=MTU, tcp=False)
        for side in SIDES:
            for address in ADDRESSES[side]:
                self.ip(side, "address", "add", f"{address}/{64 if ':' in address else 24}", "dev", LINK, *(["nodad"] if ":" in address else []))
        said = self.said("--mode", "xdp")
        if "this build has no AF_XDP" in said:
            print(f"SKIPPED AF_XDP: {said}", file=sys.stderr, flush=True)
            self.skipTest(said)

    def ip(self, side, *arguments):
        return subprocess.run(["ip", "-n", self.net.name(side), *arguments], check=True, capture_output=True, text=True).stdout

    def command(self, side, *arguments):
        return self.net.command(side, list(arguments))

    def said(self, *options, link=LINK, before=()):
        """The driver that `uroce info` shows, or what it complains of."""
        status, output = self.info(*self.command("left", *before, UROCE, "info", "--interface", link, *options))
        word = "driver" if status == 0 else "uroce: "
        lines = [line.strip() for line in output.splitlines() if line.strip().startswith(word)]
        self.assertEqual(len(lines), 1, output)
        return lines[0]

    def has_program(self, side, link=LINK):
        return "xdp" in json.loads(self.ip(side, "-json", "link", "show", link))[0]

    def perf(self, side, *options, link=LINK, mode="xdp"):
        return self.command(side, UROCE, "perf", "--interface", link, "--mode", mode, *options)

    def expect_success(self, process):
        status, output = programs.finish(process)
        self.assertEqual(status, 0, output)
        return output

    def transfer(self, server, port, *, family="v4", link=LINK, address=ADDRESSES["left"][0], mode="xdp", path_mtu=2048):
        """Verified WRITEs, READs and SENDs to a server that runs, whose counters it returns."""
        figures = self.folder / "figures.json"
        self.expect_success(self.start(self.perf(
            "right", "--connect", f"{address}:{port}", "--gid-index", GID_INDEX[family], "--size", "1,4096,100000", "--iterations", "100",
            "--measure", "bandwidth", "--quiet", "--json", str(figures), link=link, mode=mode)))
        told = json.loads(figures.read_text())
        self.assertEqual(told["path_mtu"], path_mtu)
        for operation in ("write", "read", "send"):
            self.assertGreaterEqual(told[f"{operation}.100000.bytes_verified"], 100000)
        return self.expect_success(server)

    def serve(self, *options, **where):
        return self.start_server(self.perf("left", "--server", "--log-counters", "true", *options, **where))

    def test_a_poller_that_sleeps(self):
        server, port = self.start_server(self.perf("left", "--server", "--poller-idle", "interrupt", "--poller", "dedicated"))
        deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
        while not self.waits_at_futex(server, "uroce-poll-0"):
            self.assertLess(time.monotonic(), deadline, "it does not sleep")
            time.sleep(0.02)
        self.transfer(server, port)

    def test_rdma_and_tcp_share_the_interface(self):
        for family in GID_INDEX:
            with self.subTest(family):
                self.share_the_interface(family)

    def test_frames_longer_than_a_page(self):
        """Path MTU 4096, at link MTUs with and without room to spare, where the kernel has such frames (Linux 6.6)."""
        for mtu, carried, why in (4200, 4200, f"the MTU of interface {LINK}"), (9000, 7918, "AF_XDP has two pages for a frame"):
            self.set_mtu(mtu)
            status, output = self.info(*self.command("left", UROCE, "info", "--interface", LINK, "--mode", "xdp"))
            if "before Linux 6.6" in output:
                self.skipTest(output)
            self.assertEqual(status, 0, output)
            self.assertRegex(output, rf"AF_XDP on {LINK} beside the kernel, native, copied, long frames in two pieces\n(.|\n)*link MTU +{carried}, .*: {why}\n")
            for family in GID_INDEX:
                with self.subTest(f"{mtu}, {family}"):
                    self.share_the_interface(family, 4096)
            # Single frames of a packet socket are as long, and a program may have short frames all the same.
            server, port = self.serve()
            self.transfer(server, port, mode="packet", path_mtu=4096)
            server, port = self.serve("--mtu", "3000")
            self.transfer(server, port)

    def share_the_interface(self, family, path_mtu=2048):
        server, port = self.serve("--gid-index", GID_INDEX[family])
        self.assertTrue(self.has_program("left"))
        receiver = self.start(self.command("left", sys.executable, "-c", TCP_SERVER))
        sender = self.start(self.command("right", sys.executable, "-c", TCP_CLIENT, receiver.stdout.readline().strip()))
        counters = self.transfer(server, port, family=family, path_mtu=path_mtu)
        # The kernel's frames do not come to us, and none of ours is damaged.
        for what in "rx_not_roce", "drop_icrc", "port_dropped":
            self.assertNotIn(what, counters)
        self.expect_success(sender)
        said = self.expect_success(receiver)
        self.assertEqual(said.split(), [sent_digest()], said)
        for side in SIDES:
            self.assertFalse(self.has_program(side), "an orderly end leaves a program")

    def set_mtu(self, mtu):
        for side in SIDES:
            self.ip(side, "link", "set", LINK, "mtu", str(mtu))

    def test_the_other_end_may_be_by_af_packet(self):
        server, port = self.serve()
        self.transfer(server, port, mode="packet")

    def test_an_interface_without_xdp_of_its_own(self):
        """A bridge: the kernel's receive path executes the program."""
        for side in SIDES:
            self.ip(side, "link", "add", BRIDGE, "mtu", str(MTU), "type", "bridge")
            self.ip(side, "link", "set", LINK, "master", BRIDGE)
            self.ip(side, "link", "set", BRIDGE, "up")
            self.ip(side, "address", "add", f"{BRIDGE_ADDRESSES[side]}/24", "dev", BRIDGE)
        self.assertRegex(self.said("--mode", "xdp", link=BRIDGE), rf"AF_XDP on {BRIDGE} beside the kernel, generic \(its driver has no XDP\), copied")
        self.assertRegex(self.said(link=BRIDGE), r"AF_PACKET beside the kernel.*its driver has no XDP, and generic AF_XDP.* is no faster")
        server, port = self.serve(link=BRIDGE, mode="xdp")
        self.assertTrue(self.has_program("left", BRIDGE))
        self.transfer(server, port, link=BRIDGE, address=BRIDGE_ADDRESSES["left"])
        self.assertFalse(self.has_program("left", BRIDGE))
        self.set_mtu(4200)
        for side in SIDES:
            self.ip(side, "link", "set", BRIDGE, "mtu", "4200")
        said = self.said("--mode", "xdp", link=BRIDGE)
        if "before Linux 6.6" not in said:
            self.assertRegex(said, r"generic \(its driver has no XDP\), copied, long frames in two pieces")
            server, port = self.serve(link=BRIDGE, mode="xdp")
            self.transfer(server, port, link=BRIDGE, address=BRIDGE_ADDRESSES["left"], path_mtu=4096)

    def test_what_the_program_takes(self):
        """The kernel executes it on frames of ours, and says what becomes of them."""
        server, _ = self.serve()
        found = json.loads(self.ip("left", "-json", "link", "show", LINK))[0]["xdp"]["prog"]["id"]

        def is_taken(frame):
            done = subprocess.run(self.command("left", sys.executable, "-c", EXECUTE, str(found), frame.hex()), capture_output=True, text=True, check=True)
            return {XDP_PASS: False, XDP_REDIRECT: True}[int(done.stdout)]

        ours, others = ADDRESSES["left"], ("192.0.2.77", "2001:db8::77")
        for frame in (ipv4(ours[0]), ipv6(ours[1]), tagged(ipv4(ours[0])), tagged(ipv6(ours[1])), ipv4(ours[0], options=bytes(8)),
                      ipv4("239.1.2.3"), ipv6("ff0e::1")):
            self.assertTrue(is_taken(frame), frame.hex())
        kernels = [ipv4(others[0]), ipv6(others[1]), ipv4(ours[0], port=4792), ipv6(ours[1], port=53), tagged(ipv4(others[0])),
                   ipv4(ours[0], protocol=6), ipv6(ours[1], protocol=6), tagged(tagged(ipv4(ours[0]))),
                   ipv4(ours[0], fragment=0x2000), ipv4(ours[0], fragment=0x00B9),  # the first one, another one
                   ipv6(ours[1], protocol=44), ipv6(ours[1], protocol=0),  # a fragment, hop-by-hop options
                   bytes(12) + b"\x08\x06" + bytes(46)]  # ARP
        kernels += [frame[:length] for frame, length in ((ipv4(ours[0]), 30), (ipv4(ours[0]), 38), (ipv6(ours[1]), 50), (ipv6(ours[1]), 60))]
        for frame in kernels:
            self.assertFalse(is_taken(frame), frame.hex())

        # The kernel's addresses are followed while the device is open.
        for action, expected in (("add", True), ("del", False)):
            self.ip("left", "address", action, f"{others[0]}/24", "dev", LINK)
            deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
            while is_taken(ipv4(others[0])) != expected:
                self.assertLess(time.monotonic(), deadline, f"address {action}: not followed")
                time.sleep(0.02)
        self.assertTrue(is_taken(ipv4(ours[0])))
        self.assertIsNone(server.poll())

    def test_each_mode_says_what_it_is_and_why(self):
        self.add_tap()
        self.assertRegex(self.said(link=TAP), rf"AF_XDP on {TAP} beside the kernel, native, copied")
        self.assertRegex(self.said(), rf"packet sockets on {LINK}: AF_PACKET beside the kernel, as GSO frames on veth carry more than AF_XDP")
        self.assertRegex(self.said("--mode", "xdp"), rf"AF_XDP on {LINK} beside the kernel, native, copied")
        self.assertRegex(self.said("--mode", "packet"), "AF_PACKET beside the kernel, as configured")

    def test_a_nic_that_refuses_rules_is_left_aside(self):
        """net_pcap is on the interface, and has no rte_flow. (Where rules are made: tests/interop/pci_test.py.)"""
        nic = ("--nic", f"net_pcap0,iface={LINK}")
        refusal = "the rules of its NIC are not to be had (net_pcap0: cannot leave the rest to the kernel: Function not implemented)"
        for mode, way in (("auto", "AF_PACKET beside the kernel, as GSO frames"), ("xdp", f"AF_XDP on {LINK} beside the kernel"), ("packet", "AF_PACKET beside the kernel, as configured")):
            said = self.said(*nic, "--mode", mode)
            self.assertIn(refusal, said)
            self.assertIn(way, said)
        self.assertIn(f"net_null0: is not the NIC of interface {LINK}", self.said("--nic", "net_null0"))
        self.transfer(*self.serve(*nic))

    def test_a_kill_leaves_no_program(self):
        server, _ = self.serve()
        self.assertTrue(self.has_program("left"))
        server.kill()
        server.communicate()
        # The kernel takes it away behind the process's end.
        deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
        while self.has_program("left"):
            self.assertLess(time.monotonic(), deadline, "the program stays")
            time.sleep(0.02)
        again, port = self.serve()
        self.transfer(again, port)

    @unittest.skipIf(shutil.which("ibv_asyncwatch") is None, "ibv_asyncwatch is not installed")
    def test_an_interface_that_goes_takes_the_program_along(self):
        watch = self.start(self.command("left", "stdbuf", "-oL", "ibv_asyncwatch"), f'[[device]]\ninterface = "{LINK}"\nmode = "xdp"\n')
        self.assertIn("uroce0", watch.stdout.readline())
        self.assertTrue(self.has_program("left"))
        self.ip("left", "link", "delete", LINK)
        alarm = threading.Timer(programs.TIME_LIMIT_SECONDS, watch.kill)
        alarm.start()
        told = next((line for line in watch.stdout if "FATAL" in line.upper()), None)
        alarm.cancel()
        self.assertIsNotNone(told, "no event when the interface was deleted")
        self.assertIsNone(watch.poll())
        # One of that name that comes later has none.
        self.net.join(LINK, MTU)
        self.assertFalse(self.has_program("left"))
        watch.kill()

    def test_another_program_stays_and_is_named(self):
        foreign = self.start_foreign()
        self.assertRegex(self.said("--mode", "xdp"), rf"{LINK}: another XDP program is on it: 'not_uroce'")
        # Beside it there is AF_PACKET, which it lets everything through to.
        self.add_tap()
        self.start_foreign(TAP)
        self.assertRegex(self.said(link=TAP), "AF_PACKET beside the kernel.*AF_XDP.*'not_uroce'")
        server, port = self.serve(mode="auto")
        self.transfer(server, port)
        self.assertIn("not_uroce", self.ip("left", "-details", "link", "show", LINK))
        foreign.kill()

    def add_tap(self):
        """An interface that has XDP and is no veth; it leads nowhere."""
        self.ip("left", "tuntap", "add", "mode", "tap", "name", TAP)
        self.ip("left", "link", "set", TAP, "addrgenmode", "none", "up")

    def start_foreign(self, link=LINK):
        foreign = subprocess.Popen(self.command("left", sys.executable, "-c", FOREIGN, link), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(programs.end, foreign)
        self.assertEqual(foreign.stdout.readline(), "attached\n")
        return foreign

    def test_what_cannot_be_is_told_in_one_line(self):
        unprivileged = ["setpriv", "--bounding-set=-bpf,-sys_admin"]
        self.assertRegex(self.said("--mode", "xdp", before=unprivileged), rf"{LINK}: no permission to load an XDP program \(CAP_BPF")
        self.add_tap()
        self.assertRegex(self.said(link=TAP, before=unprivileged), "AF_PACKET beside the kernel.*CAP_BPF")
        self.assertRegex(self.said("--mode", "xdp", "--poller-per-device", "2"), "2 queues asked for, 1 to 1 are possible by AF_XDP")
        status, output = self.info(*self.command("left", UROCE, "info", "--interface", LINK, "--mode", "neither"))
        self.assertNotEqual(status, 0, output)
        self.assertIn('must be one of "auto", "xdp", "packet"', output)
        self.set_mtu(9000)
        self.ip("left", "link", "set", TAP, "mtu", "9000")
        self.assertRegex(self.said("--mode", "xdp", "--mtu", "8000"), rf"{LINK}: (mtu 8000 is too large: at most 7918 \(AF_XDP|an MTU of 8000 is more.*packet)")
        self.assertRegex(self.said("--mtu", "8000", link=TAP), "AF_PACKET beside the kernel.*8000")
        for side in SIDES:
            self.assertFalse(self.has_program(side))


main()
