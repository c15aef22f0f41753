#!/usr/bin/env python3
"""What lives beside the host service by its lines of serve.toml, exported memory and an NVMe-oF target: it ends with the service, comes back
when it is killed, and follows the file.

    tests/programs/mem_life_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE MEMORY_CLIENT STRANGER NVMF_HOST WRITER
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import exported_disk
import host_service
import programs
from exported_memory import NVMF_HOST, UROCE, WRITER, Exporting, eventually

LARGE = 64 << 20
TARGET = exported_disk.tables(host_service.ADDRESS)


def is_there(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Life(Exporting):
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


class ReadAgain(Exporting):
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

if __name__ == "__main__":
    programs.main()
