#!/usr/bin/env python3
"""Exported memory, `[[memory]]` of serve.toml with `uroce mem`: its clients, and what is refused.

    tests/programs/mem_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE MEMORY_CLIENT STRANGER NVMF_HOST WRITER
"""

import os
import subprocess

import host_service
import ordinary
import programs
from exported_memory import STRANGER, UROCE, Exporting, eventually

# More than moves at once, and not of whole pieces.
BYTES = (5 << 20) + 123


class Clients(Exporting):
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


class Crowds(Exporting):
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
        # Of the one who has more the oldest give way, until both have as many.
        crowd = self.crowd("128 granted, then refused: 4\n")
        self.refused("list", naming="the server has too many connections")
        crowd.kill()
        crowd.communicate()
        self.wait_for_memory()
        self.assertEqual(self.said.read_text(), "")


class OtherHosts(Exporting):
    """A memory server with a port of its own, and clients at the other end of its wire."""

    def place(self, role, number):
        port = f"net_memif0,role={role},id=0,socket={self.folder}/link,socket-abstract=no,bsize=8192"
        return f'[[device]]\nname = "uroce0"\nport = "{port}"\nmac = "02:00:00:00:02:{number:02}"\naddresses = ["192.0.2.{number}/24"]\n'

    def client(self, *arguments):
        return programs.finish(self.stack.start([UROCE, "mem", *arguments], self.place("client", 2)))

    def test_only_what_is_for_any_host_is_found(self):
        tables = self.file("tables.toml", (self.table("own", size=4096) + self.table("shared", size=4096) + "allow_any_host = true\n").encode())
        self.file("own", b"for this host")
        self.file("shared", b"for all")
        server = self.stack.start([UROCE, "mem", "serve", "--config", str(tables)], self.place("server", 1))
        self.addCleanup(programs.end, server)
        self.assertEqual(server.stdout.readline(), "uroce mem serve: listening at port 18520\n")
        code, said = self.client("list", "--server", "192.0.2.1")
        self.assertEqual((code, [line.split() for line in said.splitlines()]), (0, [["NAME", "BYTES", "ACCESS"], ["shared", "4096", "read"]]))
        code, said = self.client("get", "--server", "192.0.2.1", "--length", "7", "shared")
        self.assertEqual((code, said), (0, "for all"))
        for _ in range(2):
            code, said = self.client("get", "--server", "192.0.2.1", "own")
            self.assertEqual(code, 1, said)
        server.terminate()
        code, said = programs.finish(server)
        self.assertEqual(code, 0, said)
        self.assertEqual(said, "uroce mem serve: 192.0.2.2 asks for what only this host may have: allow_any_host = true in a table [[memory]] is for all\n")

    def test_without_the_key_nothing_is_found(self):
        tables = self.file("tables.toml", self.table("own", size=4096).encode())
        server = self.stack.start([UROCE, "mem", "serve", "--config", str(tables)], self.place("server", 1))
        self.addCleanup(programs.end, server)
        self.assertEqual(server.stdout.readline(),
                         "uroce mem serve: listening at port 18520 for this host alone: allow_any_host = true in a table [[memory]] is for others\n")
        code, said = self.client("list", "--server", "192.0.2.1")
        self.assertEqual(code, 1, said)


class Configuration(Exporting):
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
