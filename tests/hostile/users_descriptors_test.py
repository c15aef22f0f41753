#!/usr/bin/env python3
"""A user sends descriptors whose end takes as long as the user likes: sockets that linger, and files of a FUSE mount that answers
nothing. No other user and no control message may wait for them. And what a user may put in the way of another one's start."""

import fcntl
import os
import shutil
import stat
import time
from pathlib import Path

import users

# A socket that its close() waits for: more is to be sent than its peer reads, which the attacker keeps.
LINGERING = """
import threading
def lingering():
    listener = socket.create_server(("127.0.0.1", 0))
    sender = socket.create_connection(listener.getsockname())
    receiver, _ = listener.accept()
    sender.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sender.send(bytes(1 << 16))
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    kept.append((listener, receiver))
    return sender
def give(one, sockets, *texts, also=()):
    # The last of the texts brings the sockets. The service reads nothing of a program that does not read what it is answered: so the
    # texts wait until this process has let the sockets go, and the service is the last that has them.
    waiting = min(int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text()) + 1, 100)  # answers in the socket, by number or by bytes
    questions = (waiting + 16) // 3 + 4  # three answers to each, and 16 that wait in the service
    try:
        for _ in range(questions):
            one.send("List")
        time.sleep(0.1)
        for text in texts[:-1]:
            one.send_bytes(text)
        one.send_bytes(texts[-1], [*also, *(each.fileno() for each in sockets)])
    except OSError:
        kept.append(sockets)  # the connection has ended
        return
    for each in sockets:
        # Should the connection have ended meanwhile, it is this process that lingers: then not this thread.
        closing = threading.Thread(target=each.close, daemon=True)
        closing.start()
        closing.join(1)
    answered = 0
    while answered < questions and (got := one.receive()) is not None:
        answered += got.type == "Done"
kept = []
"""
SLEEP = "print('sent', flush=True)\ntime.sleep(600)\n"

# A FUSE daemon of the attacker's own, without libfuse: it opens every file, and never answers FLUSH. What follows is a child's.
FUSE = """
import ctypes, signal
libc = ctypes.CDLL(None, use_errno=True)
uid, gid = os.getuid(), os.getgid()
def fail(what):
    print("cannot:", what, os.strerror(ctypes.get_errno()), flush=True)
    sys.exit()
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x20000
if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS): fail("unshare")
Path("/proc/self/setgroups").write_text("deny")
Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
folder = sys.argv[1] + "/fuse-%d" % os.getpid()
os.mkdir(folder)
try:
    fuse = os.open("/dev/fuse", os.O_RDWR)
except OSError as error:
    print("cannot: /dev/fuse", error, flush=True)
    sys.exit()
if libc.mount(b"fuse", folder.encode(), b"fuse", 0, b"fd=%d,rootmode=40000,user_id=%d,group_id=%d" % (fuse, uid, gid)): fail("mount")
LOOKUP, FORGET, GETATTR, OPEN, STATFS, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 17, 18, 25, 26, 36, 42
ROOT, FILE = 1, 2
def attributes(node):
    return struct.pack("<QQQQQQIIIIIIIIII", node, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755 if node == ROOT else 0o100644, 1, uid, gid, 0, 4096, 0)
def serve():
    while True:
        try:
            request = os.read(fuse, 1 << 17)
        except OSError:
            return
        _, operation, unique, node = struct.unpack_from("<IIQQ", request)
        def reply(data=b"", error=0):
            os.write(fuse, struct.pack("<IiQ", 16 + len(data), error, unique) + data)
        if operation == INIT: reply(struct.pack("<IIIIHHIIHHI", 7, 31, 65536, 0, 0, 0, 65536, 1, 0, 0, 0) + bytes(28))
        elif operation == GETATTR: reply(struct.pack("<QII", 1, 0, 0) + attributes(node))
        elif operation == LOOKUP: reply(struct.pack("<QQQQII", FILE, 0, 1, 1, 0, 0) + attributes(FILE))
        elif operation == OPEN: reply(struct.pack("<QII", 7, 0, 0))
        elif operation == RELEASE: reply()
        elif operation == FLUSH: print("flush", flush=True)
        elif operation not in (FORGET, INTERRUPT, BATCH_FORGET, STATFS): reply(error=-38)
# Two processes: what has a file open waits for its daemon when it ends, and its daemon must not be among that.
if os.fork():
    serve()
PR_SET_PDEATHSIG = 1
libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
os.close(fuse)
file = os.open(folder + "/file", os.O_RDONLY)
"""


class Descriptors(users.Scenario):
    def attack(self, text, *words):
        attacker = self.machine.python("attacker", text, *words)
        line = self.ready(attacker)
        if line.startswith("cannot:"):
            self.skipTest(line.strip())
        return attacker

    def expect_nothing_noticed(self, text, *words):
        """While the attacker lives, and behind its end."""
        alone = min(self.machine.list_seconds() for _ in range(5))
        attacker = self.attack(text, *words)
        self.expect_answers(alone)
        # Closing began within this time at the latest.
        time.sleep(1)
        self.expect_answers(alone)
        with users.control.Control(str(self.machine.socket)) as victim:
            self.assertEqual(victim.attach().type, "Attached")
        return alone, attacker

    def test_a_lingering_socket_with_a_question(self):
        _, attacker = self.expect_nothing_noticed(LINGERING + "one = Control()\ngive(one, [lingering()], one.packed('List'))\n" + SLEEP)
        users.programs.end(attacker)
        self.expect_given_back()

    def test_lingering_sockets_as_the_memory_of_a_program(self):
        self.expect_nothing_noticed(LINGERING + "mine = [Control() for _ in range(8)]\n"
                                    "for one in mine: give(one, [lingering()], one.packed('Attach', count=4096))\n" + SLEEP)
        # They linger although their sender lives: nothing is held.
        self.expect_given_back()

    def test_more_descriptors_than_a_message_has(self):
        self.expect_nothing_noticed(LINGERING + "one, zero = Control(), open('/dev/zero')\n"
                                    "give(one, [lingering()], one.packed('Attach', count=4096), also=[zero.fileno()] * (DESCRIPTORS_MAX - 1))\n" + SLEEP)
        self.expect_given_back()

    def test_descriptors_that_nobody_receives(self):
        # Behind what ends the connection: its queue is closed with it.
        self.expect_nothing_noticed(LINGERING + "mine = [Control() for _ in range(8)]\n"
                                    "for one in mine: give(one, [lingering()], bytes(7), one.packed('List'))\n" + SLEEP)
        self.expect_given_back()

    def test_connections_that_are_refused(self):
        # 16 of a user may say nothing; what others have sent before they are accepted is closed with them.
        _, attacker = self.expect_nothing_noticed(LINGERING + "mine = [Control() for _ in range(24)]\n"
                                                  "for one in mine: give(one, [lingering()], one.packed('List'))\n" + SLEEP)
        users.programs.end(attacker)
        self.expect_given_back()

    def test_a_file_whose_file_system_does_not_answer(self):
        text = FUSE + ("for _ in range(12):\n"
                       "    answer = Control().ask('Attach', [file], until=('Attached', 'Done'), count=4096)\n"
                       "    print('refused', answer.error if answer else 'end', flush=True)\n" + SLEEP)
        alone, attacker = self.expect_nothing_noticed(text, str(self.machine.writable))
        answers = []
        while len(answers) < 11:
            line = attacker.stdout.readline().split()
            answers += line[1:] if line[:1] == ["refused"] else []
        self.say(f"refused with {answers}")
        # Expect: no more of this user is taken (EAGAIN) behind the second, and nobody else notices.
        self.assertEqual(set(answers[2:]), {"11"})
        self.assertIn("does not end", self.machine.said())
        self.assertLessEqual(self.machine.descriptors(), self.held + 24)
        self.expect_answers(alone)
        users.programs.end(attacker)
        self.expect_given_back()

    def test_a_stopped_service_does_not_wait_for_a_lingering_socket(self):
        self.attack(LINGERING + "mine = [Control() for _ in range(4)]\n"
                    "for one in mine: give(one, [lingering()], one.packed('Attach', count=4096))\n" + SLEEP)
        began = time.monotonic()
        self.machine.service.terminate()
        self.machine.service.wait(users.programs.TIME_LIMIT_SECONDS)
        self.say(f"ended in {time.monotonic() - began:.2f} s")

    def test_reading_a_broken_configuration_again_changes_nothing(self):
        alone = min(self.machine.list_seconds() for _ in range(5))
        sound = self.machine.configuration.read_text()

        def put(text=None, link=None):
            self.machine.configuration.unlink()
            if link:
                self.machine.configuration.symlink_to(link)
            else:
                self.machine.configuration.write_text(text)

        for put_it in (lambda: put(link="/proc/self/mem"), lambda: put(link="/dev/zero"), lambda: put(text="a." * 500_000 + "a = 1\n"),
                       lambda: put(text="a = " + "[" * 500_000)):
            put_it()
            code, said = users.programs.finish(self.machine.start("root", [users.UROCE, "reload", "--socket", self.machine.socket]))
            self.assertNotEqual(code, 0)
            self.assertIn("serve.toml", said)
            self.expect_answers(alone)
        put(text=sound)
        code, said = users.programs.finish(self.machine.start("root", [users.UROCE, "reload", "--socket", self.machine.socket]))
        self.assertEqual((code, said), (0, ""))


class Starts(users.Scenario):
    """What another user can put in the way of a program's start."""

    def run_seconds(self, user="victim", **more):
        began = time.monotonic()
        code, said = users.programs.finish(self.machine.start(user, [users.UROCE, "run", "--", "true"], more=more))
        self.assertEqual(code, 0, said)
        return time.monotonic() - began

    def test_a_lock_on_the_executable_delays_nobody(self):
        alone = min(self.run_seconds() for _ in range(3))
        with users.UROCE.open("rb") as executable:
            fcntl.flock(executable, fcntl.LOCK_EX)
            locked = min(self.run_seconds() for _ in range(3))
        self.say(f"{locked:.2f} s with a lock, {alone:.2f} s without")
        self.assertLess(locked, alone + 0.7)

    def test_a_service_of_root_in_tmp_is_known_in_a_user_namespace(self):
        self.assertTrue(str(self.machine.socket).startswith("/tmp/"), "the machine's folder is elsewhere (TMPDIR)")
        inside = ["sh", "-c", f"cat /proc/self/uid_map; {users.UROCE} status"]
        code, said = users.programs.finish(self.machine.start("victim", [users.UROCE, "run", "--", *inside]))
        self.say(said.strip())
        if "4294967295" in said:
            self.skipTest("a user may not make a user namespace here")
        self.assertEqual(code, 0, said)
        self.assertIn("uroce0", said)

    def test_a_name_in_tmp_that_another_user_has_taken(self):
        taken = Path("/tmp", f"uroce-{users.USERS['victim']}")
        if taken.exists() or Path("/run/uroce/service.sock").exists():
            self.skipTest("there is a service of this machine")
        taken.mkdir(0o755)
        self.addCleanup(shutil.rmtree, taken)
        os.chown(taken, users.USERS["attacker"], users.USERS["attacker"])
        home = self.machine.folder / "home"
        home.mkdir()
        os.chown(home, users.USERS["victim"], users.USERS["victim"])
        own = {"UROCE_SERVICE": "", "HOME": str(home), "XDG_RUNTIME_DIR": ""}
        service = self.machine.start("victim", [users.UROCE, "serve"], more=own)
        line = service.stdout.readline()
        self.say(line.strip())
        self.assertIn(f"{taken} is another user's", line)
        at = home / ".uroce/service.sock"
        self.wait_for(at.exists, "no socket")
        self.assertTrue(stat.S_ISSOCK(at.stat().st_mode))
        # Expect: programs look at the same place.
        code, said = users.programs.finish(self.machine.start("victim", [users.UROCE, "status"], more=own))
        self.assertEqual(code, 0, said)
        self.assertIn(str(at), said)
        users.programs.end(service)


if __name__ == "__main__":
    users.main()
