#!/usr/bin/env python3
"""What one user takes of the service as long as nobody stops him: programs, queue pair numbers, the time of its control thread; and another
user's connection, by guessing."""

import json

import users

# Programs until one is refused. What was given and why there was no more.
TAKE_ALL = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
mine, why, memory = [], "", None
while len(mine) < 2000:
    one = Control()
    memory = memory or one.program_memory()
    got = one.attach(count=65536, memory=memory)
    if got is None or got.type != "Attached":
        if got is not None and got.error == 11:
            one.close()
            time.sleep(0.02)
            continue
        why = got.text.decode() if got is not None else "ended"
        break
    mine.append((one, got.count))
print(json.dumps({"programs": len(mine), "numbers": sum(count for _, count in mine), "why": why}), flush=True)
time.sleep(60)
"""
# Connections that ask for the status without end: some that never attach, and some of programs.
ASK_STATUS = """
import select
mine = [attached(text=b"\\xff\\xfe\\x1b[31m" * 10) for _ in range(48)]
for _ in range(15):
    mine.append(Control())
poll = select.poll()
by_number = {one.socket.fileno(): one for one in mine}
for one in mine:
    one.socket.setblocking(False)
    poll.register(one.socket, select.POLLIN)
def ask(one):
    try:
        while True:
            one.send("Status")
    except OSError:
        pass
for one in mine:
    ask(one)
print("asks by", len(mine), flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    for number, _ in poll.poll(100):
        try:
            while by_number[number].socket.recv(4096):
                pass
            poll.unregister(number)
        except BlockingIOError:
            pass
        except OSError:
            poll.unregister(number)
            continue
        ask(by_number[number])
"""
# NAKs (remote access error) for a queue pair of somebody else, with one PSN after another.
SEND_NAKS = """
me = attached()
got = None
with Control() as other:
    other.send("List")
    while (message := other.receive()).type != "Done":
        if message.type == "Device":
            got = message
mac, address = got.mac, bytes([192, 0, 2, 1])
def checksum(header):
    total = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
def nak(number, psn):
    bth = struct.pack(">BBHII", 0x11, 0x40, 0xFFFF, number, psn) + struct.pack(">I", 0x62000001)
    udp = 8 + len(bth) + 4
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + udp, 0, 0x4000, 64, 17, 0, address, address)
    ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
    body = ip + struct.pack(">HHHH", 0xC000, 4791, udp, 0) + bth
    return mac + mac + b"\\x08\\x00" + body + icrc(body)
number = int(sys.argv[1])
head = nak(number, 0)
print("sends NAKs to", hex(number), flush=True)
psn, end = 0, time.monotonic() + 60
while time.monotonic() < end:
    if (me.sent - me.taken()) & 0xFFFFFFFF >= 256:
        time.sleep(0.0005)
        continue
    psn = psn + 1 & 0xFFFFFF
    me.send_frame(nak(number, psn))
"""


class Quotas(users.Scenario):
    def test_one_user_takes_all_programs_and_numbers(self):
        alone = min(self.machine.list_seconds() for _ in range(5))
        round_trip = self.machine.round_trip_us()
        memory = self.machine.memory_kib()
        attacker = self.machine.python("attacker", "import json\n" + TAKE_ALL)
        taken = json.loads(self.ready(attacker))
        self.assertIn("service.", taken["why"], "the refusal names the key")
        self.assertLessEqual(taken["numbers"], 1 << 21)
        self.assertGreaterEqual(taken["programs"], 64)
        self.assertIn("is refused", self.machine.said())
        self.assertLess(self.machine.memory_kib() - memory, 512 * 1024 + self.stack.kept_kib())
        # Others find what they found before.
        victims = [self.machine.python("victim", "mine = attached(count=65536)\nprint('attached', flush=True)\ntime.sleep(20)") for _ in range(3)]
        for victim in victims:
            self.assertEqual(self.ready(victim), "attached\n")
        shown = [one for one in self.machine.programs() if one["uid"] == users.USERS["victim"]]
        self.assertEqual([one["numbers"]["count"] for one in shown], [65536] * 3)
        self.expect_answers(alone)
        self.expect_round_trip(round_trip)
        for victim in victims:
            users.programs.end(victim)
        users.programs.end(attacker)
        self.expect_given_back()
        # The attacker's share is free again when the numbers have rested.
        again = self.machine.python("attacker", "import json\n" + TAKE_ALL)
        self.assertGreaterEqual(json.loads(self.ready(again))["programs"], 1)
        users.programs.end(again)

    def test_one_user_asks_for_the_status_without_end(self):
        alone = min(self.machine.list_seconds() for _ in range(5))
        round_trip = self.machine.round_trip_us()
        attacker = self.machine.python("attacker", ASK_STATUS)
        self.ready(attacker)
        self.expect_answers(alone)
        self.expect_round_trip(round_trip)
        self.assertIn("devices", self.machine.status("victim"))
        self.assertIsNone(attacker.poll())
        users.programs.end(attacker)
        self.expect_given_back()

    def test_the_status_shows_programs_of_others_by_their_number(self):
        one = self.machine.python("friend", "mine = attached()\nprint('attached', flush=True)\ntime.sleep(20)")
        self.ready(one)
        [device] = self.machine.status("victim")["devices"]
        self.assertEqual((device["programs"], device["other_programs"]), ([], 1))
        [device] = self.machine.status("friend")["devices"]
        self.assertEqual((len(device["programs"]), device["other_programs"]), (1, 0))
        users.programs.end(one)

    def stat_of(self, process):
        code, said = users.programs.finish(self.machine.start("root", [users.UROCE, "stat", "--json", "--pid", str(process.pid)]))
        if code != 0:
            return None
        found = json.loads(said)["processes"]
        return found[0] if found and found[0]["queue_pairs"] else None

    def test_a_connection_of_others_is_not_ended_by_guesses(self):
        """The attacker even knows the number. Without the guess of a PSN the NAKs would be dropped, too; so what counts is why they are."""
        figures = self.machine.writable / "victim.json"
        server = self.machine.start("friend", [users.UROCE, "perf", "--server", "--listen", "0"])
        port = server.stdout.readline().split()[-1]
        client = self.machine.start("victim", [users.UROCE, "perf", "--connect", f"127.0.0.1:{port}", "--op", "send", "--size", "64", "--measure",
                                               "latency", "--duration", "6", "--json", figures, "--quiet"])
        shown = []
        def seen():
            shown[:] = filter(None, [self.stat_of(client)])
            return bool(shown)
        self.wait_for(seen, "the victim has no queue pair")
        number = shown[0]["queue_pairs"][0]["number"]
        attacker = self.machine.python("attacker", ICRC + SEND_NAKS, str(number))
        self.ready(attacker)
        dropped = 0
        def drops():
            nonlocal dropped
            if (now := self.stat_of(client)) is not None:
                dropped = max(dropped, now["devices"][0]["counters"].get("drop_wrong_peer", 0))
            return dropped >= 1000
        self.wait_for(drops, f"only {dropped} NAKs were dropped as none of the peer's")
        code, said = users.programs.finish(client, 4 * users.programs.TIME_LIMIT_SECONDS)
        self.assertEqual(code, 0, said)
        users.programs.end(attacker)
        users.programs.end(server)
        self.expect_given_back()


# The ICRC of a RoCEv2 packet over IPv4: the fields that change on the way are ones (lib/README.md, wire facts 3).
ICRC = """
import zlib
def icrc(packet):
    masked = bytearray(b"\\xff" * 8 + packet)
    for at in (1, 8, 10, 11, 26, 27, 32):  # type of service, TTL, checksums, and byte 4 of the BTH
        masked[8 + at] = 0xFF
    return struct.pack("<I", zlib.crc32(masked) & 0xFFFFFFFF)
"""

if __name__ == "__main__":
    users.main()
