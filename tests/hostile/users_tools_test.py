#!/usr/bin/env python3
"""Root's tools look at programs of other users: captures (`uroce dump`) and statistics (`uroce stat`, `uroce exporter`) of programs that say
what they like, as often as they like, or nothing."""

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request

import users
from users import UROCE, programs

# A captured program's answers. `number`: of the order to capture.
ORDERED = """
import ctypes
one = attached(text=b"attacker")
print("attached", flush=True)
while (got := one.receive()).type != "Fault":
    pass
number, memory = got.number, one.program_memory()[0]
"""
FLOOD = ORDERED + """
one.socket.setblocking(False)
sent, until = 0, time.monotonic() + float(sys.argv[1])
try:
    while time.monotonic() < until:
        try:
            one.send("FaultTaken", [memory], number=number)
            sent += 1
        except BlockingIOError:
            time.sleep(.0005)
except OSError as error:
    print("ended", error.errno, flush=True)
print("sent", sent, flush=True)
time.sleep(60)
"""
ANSWER = ORDERED + """
if sys.argv[1] == "escapes":
    one.send("FaultTaken", number=number, error=1, text=b"\\x1b]0;owned\\x07\\x1b[31mRED\\r\\nuroce dump: forged line\\xff")
elif sys.argv[1] == "file":
    one.send("FaultTaken", [os.open("/etc/passwd", os.O_RDONLY)], number=number)
else:
    one.send("FaultTaken", [memory], number=number)
time.sleep(60)
"""
# A ring (lib/capture/ring.h) whose frames are dated in the far future, over and over.
FUTURE = ORDERED + """
slots, slot_bytes, head = 1 << 15, 128, 4096 + 64 * 64
count = (head + slots * slot_bytes + 4095) // 4096 * 4096
ring = os.memfd_create("uroce-capture", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
os.ftruncate(ring, count)
written = mmap.mmap(ring, count)
fcntl.fcntl(ring, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)
struct.pack_into("<QIII", written, 0, 0x31474E4943525555, 1, slots, slot_bytes)
slot = bytearray(slot_bytes)
struct.pack_into("<qQII BBBB HH III", slot, 16, 2 ** 63 - 1, 0, 64, 64, 1, 1, 0, 0, 0, 0, 0, 0, 0)
written[head:head + slots * slot_bytes] = bytes(slot) * slots
one.send("FaultTaken", [ring], number=number)
rounds, until = 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    for i in range(slots):
        struct.pack_into("<Q", written, head + i * slot_bytes, rounds * slots + i + 1)
    rounds += 1
    struct.pack_into("<Q", written, 4096, rounds * slots)
print("rounds", rounds, flush=True)
time.sleep(60)
"""
# Statistics of a real program, but of this process, held by whoever has the lock; then `copies` descriptors of them.
BLIND = """
content = bytearray(open(sys.argv[1], "rb").read())
started = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
struct.pack_into("<Q", content, 24, started)
struct.pack_into("64s", content, 32, b"\\x1b[2J\\"}\\nuroce_forged 1\\n\\xff")
held = []
for memory in range(int(sys.argv[2])):
    held.append(os.memfd_create("uroce-statistics", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.write(held[-1], content)
    fcntl.fcntl(held[-1], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)
    # Another open file description: its lock is in the way of every reader.
    held.append(os.open(f"/proc/self/fd/{held[-1]}", os.O_RDWR))
    fcntl.flock(held[-1], fcntl.LOCK_EX)
    held += [os.dup(held[-2]) for _ in range(int(sys.argv[3]))]
print("shows", len(held), flush=True)
time.sleep(120)
"""


class Tools(users.Scenario):
    def setUp(self):
        super().setUp()
        self.capture = self.machine.folder / "capture.pcapng"

    def dump(self, *options):
        process = self.machine.start("root", [UROCE, "dump", *options, self.capture])
        self.wait_for(lambda: self.capture.exists() or process.poll() is not None, "the capture does not begin")
        return process

    def end_dump(self, process):
        process.send_signal(signal.SIGINT)
        code, said = programs.finish(process)
        self.assertEqual(code, 0, said)
        self.assertTrue(all(c.isprintable() or c == "\n" for c in said), repr(said))
        return said

    def attack(self, text, *words):
        attacker = self.machine.python("attacker", text, *words)
        self.ready(attacker)
        return attacker

    def memory_kib(self, process):
        """Of the command, which `uroce` became."""
        with open(f"/proc/{process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])

    def test_an_order_is_answered_once(self):
        alone = min(self.machine.list_seconds() for _ in range(5))
        attacker = self.attack(FLOOD, "3")
        dump = self.dump()
        dump.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        self.assertLess(self.machine.descriptors(), self.held + 16)
        self.expect_answers(alone)
        dump.send_signal(signal.SIGCONT)
        self.assertRegex(attacker.stdout.readline() + attacker.stdout.readline(), r"ended \d+\nsent \d+\n")
        self.end_dump(dump)
        programs.end(attacker)
        self.expect_given_back()

    def test_unsound_memory_is_left_out_by_name_and_the_others_are_captured(self):
        attackers = [self.attack(ANSWER, how) for how in ("unsound", "escapes", "file")]
        dump = self.dump("--snaplen", "0")
        self.machine.round_trip_us(100)
        said = self.end_dump(dump)
        self.assertRegex(said, rf"uroce dump: process {attackers[0].pid}, attacker, is left out: ")
        self.assertIn(rf"process {attackers[1].pid} does not capture: \x1b]0;owned\x07\x1b[31mRED\x0d\x0auroce dump: forged line\xff", said)
        self.assertIn(f"process {attackers[2].pid} does not capture: attacker: its memory is not sealed\n", said)
        self.assertRegex(said, r"\nuroce dump: [1-9]\d* packets.*, 3 programs were left out\n$")

    def test_frames_of_the_far_future_are_not_held(self):
        attacker = self.attack(FUTURE, "4")
        dump = self.dump()
        most = 0
        until = time.monotonic() + 4
        while time.monotonic() < until:
            most = max(most, self.memory_kib(dump))
            time.sleep(0.1)
        self.assertRegex(self.ready(attacker), r"rounds [1-9]")
        self.assertGreater(self.capture.stat().st_size, 1_000_000, "they are held")
        said = self.end_dump(dump)
        self.say(f"at most {most} KiB; {said.strip()}")
        self.assertLess(most, 150_000 + self.stack.kept_kib())

    def victims_statistics(self):
        server = self.machine.start("friend", [UROCE, "perf", "--server", "--listen", "0"])
        port = server.stdout.readline().split()[-1]
        victim = self.machine.start("victim", [UROCE, "perf", "--connect", f"127.0.0.1:{port}", "--op", "send", "--size", "64", "--measure", "latency",
                                               "--duration", "60", "--quiet"])
        place = []

        def is_there():
            for number in os.listdir(f"/proc/{victim.pid}/fd"):
                if os.readlink(f"/proc/{victim.pid}/fd/{number}").startswith("/memfd:uroce-statistics"):
                    place[:] = [f"/proc/{victim.pid}/fd/{number}"]
            return place and victim.pid in [one["pid"] for one in self.stat()["processes"]]

        self.wait_for(is_there, "the victim shows no statistics")
        shown = self.machine.writable / "statistics"
        with open(place[0], "rb") as content:
            shown.write_bytes(content.read())
        return victim, shown

    def stat(self):
        return json.loads(subprocess.run([UROCE, "stat", "--json"], capture_output=True, text=True, check=True, env=self.machine.environment()).stdout)

    def expect_the_victim(self, victim, seconds):
        began = time.monotonic()
        shown = self.stat()["processes"]
        took = time.monotonic() - began
        self.say(f"{len(shown)} processes in {took:.2f} s")
        [one] = [one for one in shown if one["pid"] == victim.pid]
        self.assertTrue(one["answers"])
        self.assertGreater(len(one["queue_pairs"]), 0)
        self.assertLess(took, seconds)

    def test_locked_and_doubled_statistics_blind_nobody(self):
        victim, shown = self.victims_statistics()
        attackers = [self.machine.python("attacker", BLIND, str(shown), "30", "20") for _ in range(3)]
        for attacker in attackers:
            self.ready(attacker)
        # 1,980 descriptors of 90 memories, each of which was worth half a second.
        self.expect_the_victim(victim, 15)
        text = subprocess.run([UROCE, "exporter", "--once"], capture_output=True, text=True, check=True, env=self.machine.environment()).stdout
        series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(len(series), len(set(series)), "series come twice")
        self.assertFalse([line for line in text.splitlines() if line.startswith("uroce_forged")])
        self.assertIn(f'process_pid="{victim.pid}"', text)

    def test_slow_clients_are_in_nobodys_way(self):
        with programs.Program([UROCE, "exporter", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True, env=self.machine.environment()) as exporter:
            self.addCleanup(programs.end, exporter)
            port = int(exporter.stdout.readline().split("port ")[1].split(",")[0])

            def scrape_seconds():
                began = time.monotonic()
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=programs.TIME_LIMIT_SECONDS) as answer:
                    self.assertIn("uroce_unreadable_processes", answer.read().decode())
                return time.monotonic() - began

            alone = scrape_seconds()
            slow = []
            for text in (b"", b"GET /metrics HTTP/1.1\r\n", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") * 70:
                one = socket.create_connection(("127.0.0.1", port))
                one.sendall(text)
                slow.append(one)  # and reads nothing
            took = [scrape_seconds() for _ in range(5)]
            self.say(f"{min(took):.3f} s, {alone:.3f} s alone")
            self.assertLess(min(took), max(1, users.SLOWER_MAX * alone))
            # One that says nothing is disconnected.
            silent = socket.create_connection(("127.0.0.1", port))
            silent.settimeout(programs.TIME_LIMIT_SECONDS)
            self.assertEqual(silent.recv(1), b"")
            for one in [*slow, silent]:
                one.close()
            exporter.terminate()
            self.assertEqual(exporter.wait(programs.TIME_LIMIT_SECONDS), 0)


if __name__ == "__main__":
    users.main()
