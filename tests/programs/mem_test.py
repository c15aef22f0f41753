#!/usr/bin/env python3
"""What lives beside the host service: `[[memory]]` with `uroce mem`, and an NVMe-oF target, each by its lines of serve.toml.

    tests/programs/mem_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE MEMORY_CLIENT STRANGER NVMF_HOST WRITER
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import exported_disk
import host_service
import ordinary
import programs

UROCE, CLIENT, STRANGER, NVMF_HOST, WRITER = sys.argv[3:8]
# More than moves at once, and not of whole pieces.
BYTES = (5 << 20) + 123
LARGE = 64 << 20
TARGET = exported_disk.tables(host_service.ADDRESS)


def eventually(condition, what):
    deadline = time.monotonic() + programs.TIME_LIMIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {programs.TIME_LIMIT_SECONDS} s: {what}")
        time.sleep(0.02)


def is_there(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class TestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="uroce-mem-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.service = None
        self.random = random.Random(1)

    def table(self, name, file=None, **keys):
        keys = {"name": name, "file": str(file or self.folder / name), **keys}
        return "[[memory]]\n" + "".join(f'{key} = {value if isinstance(value, int) else chr(34) + value + chr(34)}\n' for key, value in keys.items())

    def serve(self, tables, ready=("uroce mem serve",)):
        """A service with these tables; returns when the programs beside it serve."""
        self.said = self.folder / "said"
        with open(self.said, "w", encoding="utf-8") as errors:
            self.service = host_service.Service(self.stack, host_service.DEVICE + tables, errors=errors)
        self.addCleanup(self.stop)
        if "uroce mem serve" in ready:
            self.wait_for_memory()

    def stop(self):
        if self.service is not None:
            self.service.close()
            self.service = None

    def environment(self):
        return self.stack.environment("", self.service.environment)

    def mem(self, *arguments, **more):
        return subprocess.run([UROCE, "mem", *map(str, arguments)], capture_output=True, timeout=programs.TIME_LIMIT_SECONDS,
                              env=self.environment(), **more)

    def wait_for_memory(self):
        eventually(lambda: self.mem("list").returncode == 0, "the memory server answers")

    def works(self, *arguments, **more):
        done = self.mem(*arguments, **more)
        self.assertEqual((done.returncode, done.stderr), (0, b""), arguments)
        return done.stdout

    def refused(self, *arguments, naming, status=1, **more):
        done = self.mem(*arguments, **more)
        self.assertEqual((done.returncode, done.stdout), (status, b""), done)
        self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith(b"uroce"), done.stderr)
        self.assertIn(naming, done.stderr.decode())

    def client(self, *arguments):
        """The example program: (exit status, output)"""
        return programs.finish(self.stack.start([CLIENT, host_service.ADDRESS, *map(str, arguments)], "", self.service.environment))

    def companions(self, words="mem serve"):
        """Processes of the service that were started with these words."""
        return [pid for pid in programs.descendants_of(self.service.process.pid)
                if words in programs.command_line_of(pid)]

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def reload(self, tables):
        # As an editor does: a reader finds the old file or the new one.
        (self.service.folder / "new.toml").write_text(host_service.DEVICE + tables)
        (self.service.folder / "new.toml").rename(self.service.folder / "serve.toml")
        return subprocess.run([UROCE, "reload", "--socket", str(self.service.socket)], capture_output=True, text=True,
                              timeout=programs.TIME_LIMIT_SECONDS)


class Clients(TestCase):
    def setUp(self):
        super().setUp()
        self.content = self.random.randbytes(BYTES)
        self.file("fixed", self.content)
        self.serve(self.table("pages", size=BYTES, access="write") + self.table("fixed"))
        self.pages = self.folder / "pages"

    def test_what_is_put_is_in_the_file_and_what_is_got_is_what_is_there(self):
        self.assertEqual(self.pages.stat().st_size, BYTES)
        data = self.random.randbytes(BYTES)
        self.works("put", "pages", self.file("data", data))
        self.assertTrue(self.pages.read_bytes() == data)
        self.assertTrue(self.works("get", "pages") == data)
        copy = self.file("copy", b"old")
        self.works("get", "--server", host_service.ADDRESS, "fixed", copy)
        self.assertTrue(copy.read_bytes() == self.content)
        self.assertTrue(self.works("get", "fixed", "--offset", 7, "--length", "1M") == self.content[7:7 + (1 << 20)])
        # Of a pipe, into the middle.
        self.works("put", "--offset", "1K", "pages", "-", input=b"from a pipe")
        self.assertTrue(self.pages.read_bytes() == data[:1024] + b"from a pipe" + data[1035:])
        self.works("put", "--length", 4, "pages", self.file("words", b"many words"))
        self.assertEqual(self.pages.read_bytes()[:8], b"many" + data[4:8])
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"pages", "fixed", "data", "copy", "words", "said"})

    def test_the_directory(self):
        names = [line.split() for line in self.works("list").decode().splitlines()]
        self.assertEqual(names, [["NAME", "BYTES", "ACCESS"], ["fixed", str(BYTES), "read"], ["pages", str(BYTES), "write"]])

    def test_what_is_exported_for_reading_is_not_written(self):
        self.refused("put", "fixed", self.file("data", b"x"), naming='"fixed" is read-only')
        # Nor by a client that does not ask.
        status, said = self.client("fixed", 0, "changed")
        self.assertEqual(status, 1, said)
        self.assertIn("WRITE: remote access error", said)
        self.assertTrue((self.folder / "fixed").read_bytes() == self.content)
        status, said = self.client("pages", 3, "changed")
        self.assertEqual((status, said), (0, ""))
        self.assertEqual(self.pages.read_bytes()[:12], b"\0\0\0changed\0\0")

    def test_other_clients_read(self):
        text = b"text for a program in C\n" * 4000
        self.works("put", "pages", input=text)
        status, said = self.client("pages")
        self.assertEqual((status, said.rstrip("\0")), (0, text.decode()))

    def test_strangers(self):
        status, said = programs.finish(self.stack.start([STRANGER, host_service.ADDRESS, "pages", "fixed"], "", self.service.environment))
        self.assertEqual(status, 0, said)
        self.works("list")

    def test_mistakes_are_one_line_and_change_nothing(self):
        before = self.pages.read_bytes()
        self.refused("get", "none", naming='no region is called "none"')
        self.refused("get", "pages", "--server", "127.0.0.1:18521", naming="127.0.0.1:18521: no memory server listens there")
        self.refused("get", "pages", "--length", BYTES + 1, naming="do not fit")
        self.refused("get", "pages", "--offset", BYTES + 1, naming="--offset")
        self.refused("get", "pages", self.folder / "no/where", naming="no/where: No such file")
        self.refused("get", "pages", "/dev/full", naming="/dev/full: No space left")
        self.refused("put", "pages", self.file("long", bytes(BYTES + 1)), naming="do not fit")
        self.refused("put", "pages", input=b"x" * (BYTES + 1), naming="standard input do not fit")
        self.refused("put", "pages", "--offset", BYTES, input=b"x", naming="do not fit")
        self.refused("put", "pages", self.folder / "none", naming="none: No such file")
        self.refused("put", "pages", "--length", 5, input=b"four", naming="4 bytes only")
        self.assertTrue(self.pages.read_bytes() == before)
        for arguments, naming in ((["get"], "NAME"), (["get", "a\n"], "NAME"), (["walk"], "'walk'"), (["get", "x", "--offset", "y"], "--offset"),
                                  (["list", "--server", "[::1"], "--server"), ([], "subcommand")):
            self.refused(*arguments, status=2, naming=naming)


class Crowds(TestCase):
    """Clients that connect until they are refused, and then say nothing."""

    def serve_pages(self, keys):
        self.serve(self.table("pages", size=4096, access="write") + f'[service]\nmode = "0666"\n{keys}')

    def crowd(self, expected, user=()):
        process = self.stack.start([*user, STRANGER, host_service.ADDRESS, "pages"], "", self.service.environment, stdin=subprocess.PIPE)
        self.addCleanup(programs.end, process)
        self.assertEqual(process.stdout.readline(), expected)
        return process

    def test_a_user_that_takes_all_it_gets_keeps_no_other_out(self):
        if reason := ordinary.why_not(UROCE, STRANGER):
            self.skipTest(reason)
        self.serve_pages("")
        first = self.crowd("64 granted, then refused: 6\n", ordinary.COMMAND)
        # Nor has another program of that user more, and the memory server itself is another one's.
        second = self.crowd("0 granted, then refused: 6\n", ordinary.COMMAND)
        self.works("put", "pages", input=b"there is room")
        self.assertEqual(self.works("get", "pages", "--length", 13), b"there is room")
        for process in first, second:
            process.kill()
            process.communicate()
        listed = subprocess.list2cmdline([*ordinary.COMMAND, UROCE, "mem", "list"])
        eventually(lambda: subprocess.run(listed, shell=True, env=self.environment(), capture_output=True).returncode == 0, "the user has room again")
        self.assertEqual(self.said.read_text(), "")

    def test_the_number_is_configured(self):
        self.serve_pages("memory_connections_per_client = 3\n")
        self.crowd("3 granted, then refused: 6\n")
        self.refused("list", naming="you have too many connections to the server (service.memory_connections_per_client of its file)")

    def test_all_that_there_are(self):
        if reason := ordinary.why_not(UROCE, STRANGER):
            self.skipTest(reason)
        self.serve_pages("memory_connections_per_client = 200\n")
        self.crowd("200 granted, then refused: 6\n", ordinary.COMMAND)
        crowd = self.crowd("56 granted, then refused: 4\n")
        self.refused("list", naming="the server has too many connections")
        crowd.kill()
        crowd.communicate()
        self.wait_for_memory()
        self.assertEqual(self.said.read_text(), "")


class Life(TestCase):
    def test_a_killed_server_comes_back_and_its_file_is_whole(self):
        self.serve(self.table("large", size=LARGE, access="write"))
        data = self.folder / "data"
        for attempt in range(1, 6):
            # Another first byte each time shows that data move.
            with open(data, "wb") as file:
                file.write(bytes([attempt]))
                file.truncate(LARGE)
            server, = self.companions()
            put = subprocess.Popen([UROCE, "mem", "put", "large", str(data)], stderr=subprocess.PIPE, text=True, env=self.environment())
            with open(self.folder / "large", "rb", buffering=0) as file:
                while os.pread(file.fileno(), 1, 0) != bytes([attempt]) and put.poll() is None:
                    pass
            os.kill(server, signal.SIGKILL)
            said = put.communicate(timeout=programs.TIME_LIMIT_SECONDS)[1]
            self.assertEqual((self.folder / "large").stat().st_size, LARGE)
            self.wait_for_memory()
            if put.returncode == 1:
                break
        self.assertEqual(put.returncode, 1, "it was never killed in time")
        self.assertRegex(said, r"^uroce mem put: 127\.0\.0\.1:18520: [^\n]*\n$")
        self.works("put", "large", self.file("data", b"again"))
        self.assertEqual((self.folder / "large").read_bytes()[:5], b"again")
        self.assertIn(f"uroce serve: uroce mem serve (process {server}) was ended by signal 9; it is started again in", self.said.read_text())

    def test_what_is_beside_the_service_ends_with_it(self):
        for end in signal.SIGTERM, signal.SIGKILL:
            self.serve(self.table("pages", size=4096))
            server, = self.companions()
            self.service.process.send_signal(end)
            self.service.process.wait(programs.TIME_LIMIT_SECONDS)
            eventually(lambda: not is_there(server), f"the memory server ends ({end!r})")
            self.assertEqual(self.said.read_text(), "")
            self.stop()

    def test_it_holds_none_of_the_services_descriptors(self):
        self.serve(self.table("pages", size=4096))
        server, = self.companions()
        names = {os.readlink(path) for path in Path(f"/proc/{server}/fd").iterdir()}
        own = {os.readlink(path) for path in Path(f"/proc/{self.service.process.pid}/fd").iterdir()}
        # Beside these, both have descriptors of the memory that they share, which were passed.
        shared = {name for name in names & own if not name.startswith(("anon_inode:", "/memfd:"))}
        self.assertEqual(shared - {str(self.said), "/dev/null", os.readlink("/proc/self/fd/1")}, set())

    def test_programs_come_and_go_with_the_configuration(self):
        target = self.file("nvmf.toml", TARGET.encode())
        self.serve("", ready=())
        self.assertEqual(self.companions("uroce"), [])
        first = self.table("first", size=4096, access="write")
        self.assertEqual(self.reload(first + f'[service]\nnvmf = "{target}"\n').returncode, 0)
        self.wait_for_memory()
        self.expect_target()
        self.assertEqual(self.reload("").returncode, 0)
        eventually(lambda: self.companions("uroce") == [], "nothing is beside the service any more")
        # Nothing died that was to stay.
        self.assertNotIn("uroce serve:", self.said.read_text())

    def expect_target(self):
        command = [NVMF_HOST, host_service.ADDRESS, host_service.ADDRESS, exported_disk.SUBSYSTEM, exported_disk.FRIEND, "namespaces", "write:1:7", "verify:1:7"]
        last = []

        def served():
            last[:] = programs.finish(self.stack.start(command, "", self.service.environment))
            return last[0] == 0
        eventually(served, f"the target serves {last}")
        self.assertIn("namespace 1 is right\n", last[1])

    def test_a_target_is_one_line(self):
        self.serve(f'[service]\nnvmf = "{self.file("nvmf.toml", TARGET.encode())}"\n', ready=())
        self.expect_target()
        target, = self.companions("nvmf")
        os.kill(target, signal.SIGKILL)
        eventually(lambda: self.companions("nvmf") not in ([], [target]), "the target is started again")
        self.expect_target()


class ReadAgain(TestCase):
    """The file of a memory server changes under clients that keep writing."""

    def setUp(self):
        super().setUp()
        self.pages = self.table("pages", size=LARGE, access="write")
        self.other = self.table("other", size=4096, access="write")
        self.serve(self.pages + self.other)
        self.server, = self.companions()

    def writer(self, name):
        """A client that keeps writing, and the key of its region."""
        process = self.stack.start([WRITER, host_service.ADDRESS, name], "", self.service.environment, stdin=subprocess.PIPE)
        self.addCleanup(programs.end, process)
        return process, process.stdout.readline()

    def expect_that_all_was_written(self, process):
        process.stdin.close()
        process.stdin = None
        status, output = programs.finish(process)
        self.assertEqual(status, 0, output)
        written = (self.folder / "pages").read_bytes()
        for at in range(0, LARGE, LARGE // 64):
            self.assertEqual(int.from_bytes(written[at:at + 8], sys.byteorder), int(output), at)

    def names(self):
        return [line.split()[0] for line in self.works("list").decode().splitlines()[1:]]

    def read_again(self, tables):
        self.assertEqual(self.reload(tables).returncode, 0)

    def test_regions_come_and_go(self):
        process, key = self.writer("pages")
        removed, _ = self.writer("other")
        self.read_again(self.pages + self.other + self.table("more", size=8192))
        eventually(lambda: self.names() == ["more", "other", "pages"], "a region comes")
        self.assertIsNone(removed.poll())
        self.read_again(self.pages + self.table("more", size=8192))
        eventually(lambda: self.names() == ["more", "pages"], "a region goes")
        status, output = programs.finish(removed)
        self.assertEqual(status, 1, output)
        self.assertIn("WRITE: ", output)
        self.refused("put", "other", input=b"x", naming='no region is called "other"')
        # Other settings are another region of the same name; the file is the same.
        self.read_again(self.pages + self.table("more", size=16384, access="write"))
        eventually(lambda: self.mem("put", "more", input=bytes(16384)).returncode == 0, "a region has other settings")
        self.assertEqual((self.folder / "more").stat().st_size, 16384)
        again, same_key = self.writer("pages")
        self.assertEqual(key, same_key)
        again.kill()
        self.expect_that_all_was_written(process)
        self.assertEqual(self.companions(), [self.server])

    def test_it_is_read_again_and_again(self):
        process, key = self.writer("pages")
        for count in range(30):
            self.read_again(self.pages + "".join(self.table(f"more{i}", size=4096, access="write") for i in range(count % 3)))
        eventually(lambda: self.names() == ["more0", "more1", "pages"], "the last file holds")
        self.expect_that_all_was_written(process)
        self.assertEqual(self.companions(), [self.server])
        self.assertEqual(self.said.read_text(), "")

    def test_a_wrong_file_changes_nothing(self):
        process, _ = self.writer("pages")
        line = host_service.DEVICE.count("\n")
        done = self.reload(self.table("other", size=-1))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"serve\.toml:{line + 4}: memory\.size: must be a number of bytes")
        # What only the memory server finds.
        self.read_again(self.pages + self.table("new", size=4096) + self.table("folder", self.folder))
        eventually(lambda: "nothing is changed" in self.said.read_text(), "the mistake is told")
        self.assertRegex(self.said.read_text(), r'\Auroce mem serve: region "folder": .*: not a regular file; nothing is changed\n\Z')
        self.assertFalse((self.folder / "new").exists())
        self.assertEqual(self.names(), ["other", "pages"])
        self.expect_that_all_was_written(process)
        self.assertEqual(self.companions(), [self.server])


class Configuration(TestCase):
    def refuses(self, tables, naming):
        file = self.folder / "serve.toml"
        file.write_text(host_service.DEVICE + tables)
        done = subprocess.run([UROCE, "serve", "--config", str(file), "--socket", str(self.folder / "run/socket")], capture_output=True, text=True,
                              timeout=programs.TIME_LIMIT_SECONDS, env=self.stack.environment(""))
        self.assertEqual((done.returncode, done.stdout), (2, ""), done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stderr, naming)

    def test_the_service_refuses_what_is_wrong_with_its_line(self):
        good = self.table("a", size=4096)
        line = host_service.DEVICE.count("\n") + 1
        self.refuses(good + good, rf"serve\.toml:{line + 4}: memory\.name: two regions called \"a\"")
        self.refuses(self.table("a", access="all"), rf"serve\.toml:{line + 3}: memory\.access: must be \"read\" or \"write\"")
        self.refuses('[service]\nnvmf = "/nonexistent/nvmf.toml"\n', rf"serve\.toml:{line + 1}: service\.nvmf: /nonexistent/nvmf\.toml: No such file")
        self.refuses(good + "[service]\nidle_exit_s = 3\n", "idle_exit_s .* does not go together")
        self.assertFalse((self.folder / "a").exists())

    def serve_alone(self, tables, naming, status=1):
        file = self.file("mem.toml", tables.encode())
        done = subprocess.run([UROCE, "mem", "serve", "--config", str(file)], capture_output=True, text=True, timeout=programs.TIME_LIMIT_SECONDS,
                              env=self.stack.environment())
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (status, "", 1), done)
        self.assertIn(naming, done.stderr)

    def test_files_that_cannot_be_exported(self):
        self.serve_alone("", "there is no table [[memory]]", status=2)
        self.serve_alone(self.table("a", self.folder), "not a regular file")
        self.serve_alone(self.table("a"), "No such file")
        self.serve_alone(self.table("a", self.file("empty", b"")), "is empty, and no size is configured")
        os.mkfifo(self.folder / "fifo")
        self.serve_alone(self.table("a", self.folder / "fifo", access="write"), "not a regular file")
        self.serve_alone(self.table("a", self.file("long", bytes(4097)), size=4096), "has 4097 bytes, more than the configured size of 4096")
        self.assertEqual((self.folder / "long").stat().st_size, 4097)
        # A disk that is full leaves nothing.
        self.serve_alone(self.table("a", self.folder / "huge", size="4096T", access="write"), "huge: ")
        self.assertFalse((self.folder / "huge").exists())


if __name__ == "__main__":
    programs.main()
