#!/usr/bin/env python3
"""The rows of applications.py between two network namespaces and between two programs of one host service, and MPI between
ranks on memif and of one service.

    tests/programs/applications_test.py LIBRARY_FOLDER SANITIZER_RUNTIME UROCE NOTICE_LIBRARY [REPETITIONS]

Rows whose name contains $UROCE_APPLICATIONS are run, when it is set. With REPETITIONS the CPUs are busy with something else
meanwhile, and each row has to work every time.

Decisions:
- Most rows run beside the kernel between two network namespaces. MPI meets on one machine, over memif, and with four ranks on a bridge.
- Programs that would share memory on one machine (UCX, MPI) get an IPC namespace each, by which UCX knows another machine. Cost: their
  shared-memory paths are not run.
- A program that used another way (TCP, shared memory) fails its row: both ends' counters have to show frames. fio is exempt, because it
  leaves by _exit; its engine knows no other way.
"""

import contextlib
import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import applications
import host_service
import iscsi_target
import namespaces
import ordinary
import programs
import qemu_migration

UROCE = os.path.realpath(sys.argv[3])
NOTICE = os.path.realpath(sys.argv[4])
REPETITIONS = int(sys.argv[5]) if len(sys.argv) > 5 else 1
LIMIT_SECONDS = 120 * (3 if REPETITIONS > 1 else 1)
ONLY = os.environ.get("UROCE_APPLICATIONS", "")
HERE = Path(__file__).resolve().parent
ADDRESSES = {"left": applications.SERVER, "right": applications.CLIENT}
CONFIGURATION = f'[[device]]\nname = "uroce0"\ninterface = "{namespaces.LINK}"\n[log]\ncounters = true\n'


def note(status, began, name):
    print(f"{status:7} {time.monotonic() - began:5.1f} s  {name}", flush=True)


class Applications(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if REPETITIONS > 1:
            programs.keep_busy(cls)

    def setUp(self):
        self.processes = contextlib.ExitStack()
        self.addCleanup(self.processes.close)

    def repeated(self, name, run):
        """`run` returns what went wrong, or nothing."""
        if ONLY not in name:
            return
        with self.subTest(name):
            began, problems = time.monotonic(), []
            for _ in range(REPETITIONS):
                self.processes.close()
                if problem := run():
                    problems.append(problem)
            note(f"{len(problems)} of {REPETITIONS}" if problems else "ok", began, name)
            self.assertFalse(problems, f"{len(problems)} of {REPETITIONS}:\n" + "\n".join(problems[:3]))

    @staticmethod
    def needs(*commands, package):
        missing = [name for name in commands if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")]
        if missing:
            print(f"SKIPPED, not installed: {', '.join(missing)} (Debian's package {package} has it)", file=sys.stderr, flush=True)
        return not missing

    def start(self, command, configuration=None, more=None):
        process = self.stack.start(["setpriv", "--pdeathsig", "KILL", *command], configuration, more)
        self.processes.callback(programs.end, process)
        return process


def listens(within, port):
    """Whether a program has the TCP port, in the namespace where `within` has commands run."""
    listed = subprocess.run(within(["ss", "-Hltn", f"sport = :{port}"]), capture_output=True, text=True, check=True)
    return bool(listed.stdout.strip())


class Rows:
    """`host(side, command, more)` starts a program, `listening(side, port)` tells when it has a TCP port, `row_at` has the row meet there."""

    rows = applications.BETWEEN_HOSTS
    row_at = staticmethod(lambda row: row)

    def problem_of(self, row):
        sign = self.folder / "ready"
        sign.unlink(missing_ok=True)
        more = {"LD_PRELOAD": NOTICE, "UROCE_TEST_READY": str(sign)} if row.ready == "cm" else {}
        server = self.host("left", shlex.split(row.server), more)
        said, problems = {}, []
        try:
            ready = sign.exists if row.ready == "cm" else lambda: self.listening("left", row.ready)
            programs.wait_until(ready, server)
            client = self.host("right", shlex.split(row.client))
            for who, process in (("client", client), ("server", server)):
                status, said[who] = programs.finish(process, LIMIT_SECONDS if not problems else 5)
                problems += row.complaints(who, status, said[who])
                if not row.leaves and not re.search(r"uroce0: counters .*tx_frames", said[who]):
                    problems.append(f"{who} did not use our device")
        except AssertionError as failure:
            problems.append(str(failure))
        return "\n".join([*problems, *(f"--- {who} said:\n{text}" for who, text in said.items())]) if problems else ""

    def test_programs(self):
        for row in map(self.row_at, self.rows):
            tool = shlex.split(row.server)[0]
            if REPETITIONS > 1 and row.not_when_busy:
                print(f"SKIPPED beside busy CPUs, {row.name}: {row.not_when_busy}", file=sys.stderr, flush=True)
                continue
            if row.sanitized >= bool(self.stack.sanitizer_runtime) and self.needs(tool, package=row.package):
                self.repeated(row.name, lambda row=row: self.problem_of(row))


class BetweenHosts(Rows, Applications):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.net = cls.enterClassContext(namespaces.Namespaces(mtu=4200, tcp=False))
        for side, address in ADDRESSES.items():
            # libfabric's datagrams use GID 0, which the kernel has to know.
            namespaces.ip("-n", cls.net.name(side), "link", "set", namespaces.LINK, "down", "addrgenmode", "eui64")
            namespaces.ip("-n", cls.net.name(side), "link", "set", namespaces.LINK, "up")
            namespaces.ip("-n", cls.net.name(side), "address", "add", f"{address}/24", "dev", namespaces.LINK)
        for side in ADDRESSES:
            while not namespaces.ip("-n", cls.net.name(side), "-6", "address", "show", "dev", namespaces.LINK, "scope", "link", "-tentative"):
                time.sleep(0.1)
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="uroce-applications-")))
        # uDAPL's list of providers: ours is that of rdma_cm, beside an interface.
        cls.dat = cls.folder / "dat.conf"
        cls.dat.write_text(f'uroce u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{namespaces.LINK} 0" ""\n')

    def host(self, side, command, more=None):
        """A program on a host of its own: it shares no memory with the other, and so has no way but the link."""
        run = ["unshare", "--ipc", UROCE, "run", "--", *command]
        return self.start(self.net.command(side, run), CONFIGURATION, {"DAT_OVERRIDE": str(self.dat)} | (more or {}))

    def listening(self, side, port):
        return listens(lambda command: self.net.command(side, command), port)

    def migration(self):
        with tempfile.TemporaryDirectory(prefix="uroce-qemu-") as name:
            folder = Path(name)
            host = {"source": "right", "destination": "left"}
            guests = {}
            try:
                for which, more in (("destination", qemu_migration.incoming(applications.SERVER)), ("source", ())):
                    guests[which] = self.host(host[which], qemu_migration.guest(folder, which, more))
                    programs.wait_until(lambda which=which: qemu_migration.is_there(folder, which), guests[which])
                problems = [qemu_migration.migrate(folder, applications.SERVER)]
            except (AssertionError, OSError) as failure:
                problems = [str(failure)]
            for process in guests.values():
                if problems[0]:
                    process.kill()
                status, said = programs.finish(process, LIMIT_SECONDS)
                if status != 0 or not re.search(r"uroce0: counters .*tx_frames", said):
                    problems.append(f"{process.args[-1]}: status {status}, said:\n{said}")
            return "\n".join(problem for problem in problems if problem)

    def test_qemu_migration(self):
        if not self.stack.sanitizer_runtime and self.needs(qemu_migration.COMMAND, package="qemu-system-x86"):
            self.repeated("QEMU migration", self.migration)

    def iser(self):
        with tempfile.TemporaryDirectory(prefix="uroce-iser-") as name:
            disk = Path(name) / "disk"
            disk.write_bytes(bytes(iscsi_target.CHUNKS * iscsi_target.CHUNK))
            target = self.host("left", ["tgtd", "-f"])
            try:
                beside = lambda command: self.net.command("left", command)  # noqa: E731
                programs.wait_until(lambda: iscsi_target.answers(beside), target)
                iscsi_target.export(beside, disk)
                client = self.host("right", iscsi_target.initiator(applications.SERVER), iscsi_target.CLEAN_MEMORY)
                status, said = programs.finish(client, LIMIT_SECONDS)
                problems = []
                if status != 0 or "Pattern verification failed" in said or said.count("read ") != iscsi_target.CHUNKS:
                    problems.append(f"status {status}")
                if not re.search(r"uroce0: counters .*tx_frames", said):
                    problems.append("the initiator did not use our device")
                if not iscsi_target.is_written(disk):
                    problems.append("the file does not hold what was written")
                return "\n".join([*problems, said]) if problems else ""
            except (AssertionError, subprocess.SubprocessError) as failure:
                return str(failure)
            finally:
                target.kill()  # SIGTERM does not end tgtd while it has targets

    def test_iser(self):
        if not self.stack.sanitizer_runtime and self.needs(*iscsi_target.TOOLS, package=iscsi_target.PACKAGES):
            self.repeated("iSER: QEMU and tgtd", self.iser)


class OfOneService(Rows):
    """Two programs of one service, with its `configuration`, which meet at `ADDRESS` by the kernel's TCP, and by rdma_cm as well.
    Theirs names no device."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.service = cls.enterClassContext(host_service.Service(cls.stack, *cls.where()))
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="uroce-applications-")))
        cls.dat = cls.folder / "dat.conf"
        cls.dat.write_text(f'uroce u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{namespaces.LINK} 0" ""\n')

    @classmethod
    def row_at(cls, row):
        return dataclasses.replace(row, name=f"{row.name}, {cls.NAME}", client=row.client.replace(applications.SERVER, cls.ADDRESS))

    def host(self, _, command, more=None):
        run = self.within(["unshare", "--ipc", UROCE, "run", "--", *command])
        return self.start(run, host_service.COUNTERS, self.service.environment | {"DAT_OVERRIDE": str(self.dat)} | (more or {}))


class WithoutInterface(OfOneService, Applications):
    """As on a machine without a network: at 127.0.0.1."""

    NAME, ADDRESS = "one host", "127.0.0.1"
    rows = tuple(row for row in applications.BETWEEN_HOSTS if not row.needs_interface)

    @staticmethod
    def where():
        return ()

    @staticmethod
    def within(command):
        return command

    @staticmethod
    def listening(_, port):
        return programs.listens(port)


class BesideInterface(OfOneService, Applications):
    """As on a machine with a network: at the address of an interface that the service stands beside."""

    NAME, ADDRESS = "one interface", ADDRESSES["left"]
    # libfabric takes the addresses of interfaces there.
    rows = tuple(row for row in applications.BETWEEN_HOSTS if row.needs_interface or row.name.startswith("libfabric"))

    @classmethod
    def where(cls):
        cls.net = cls.enterClassContext(namespaces.Namespaces(mtu=4200, tcp=False))
        namespaces.ip("-n", cls.net.name("left"), "address", "add", f"{cls.ADDRESS}/24", "dev", namespaces.LINK)
        return f'[[device]]\nname = "uroce0"\ninterface = "{namespaces.LINK}"\n', cls.within

    @classmethod
    def within(cls, command):
        return cls.net.command("left", command)

    def listening(self, _, port):
        return listens(self.within, port)


class Mpi(Applications):
    """Ranks on one machine, each with a device of its own, and in an IPC namespace of its own, or they would share memory."""

    IMPLEMENTATIONS = {
        # Debian's configuration of Open MPI switches UCX off, and root has to say that it is meant.
        "openmpi": (["mpicc.openmpi"], ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ucx", "--mca", "osc", "ucx"],
                    "openmpi-bin and libopenmpi-dev"),
        "mpich": (["mpicc.mpich"], ["mpirun.mpich"], "mpich and libmpich-dev"),
    }
    MEMIF = "net_memif0,role={role},id=0,socket={folder}/link,socket-abstract=no,bsize=8192"

    def setUp(self):
        super().setUp()
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="uroce-mpi-")))

    def ranks(self, launcher, ports, apart=("unshare", "--ipc"), options=()):
        job = list(launcher)
        for rank, port in enumerate(ports):
            job += [":"] * (rank != 0) + ["-n", "1", *apart, UROCE, "run", "--log-counters", "true", "--port", port,
                                         "--mac", f"02:00:00:00:03:{rank:02}", "--ip", f"192.0.2.{rank + 1}/24", "--mtu", "4200",
                                         *options, "--", str(self.folder / "checker")]
        return job

    def problem_of(self, job, ranks, more=None, configuration=None):
        try:
            status, said = programs.finish(self.start(job, configuration, more), LIMIT_SECONDS)
        except AssertionError as hangs:
            return str(hangs)
        used = len(re.findall(r"uroce0: counters .*tx_frames [0-9]{3}", said))
        good = status == 0 and f"{ranks} ranks, 0 wrong" in said and used == ranks
        return "" if good else f"status {status}, {used} of {ranks} ranks used our device:\n{said}"

    def test_two_ranks_over_memif(self):
        for name, (compiler, launcher, package) in self.IMPLEMENTATIONS.items():
            if self.stack.sanitizer_runtime or not self.needs(*compiler, launcher[0], package=package):
                continue
            subprocess.run([*compiler, "-O2", "-o", str(self.folder / "checker"), str(HERE / "mpi_checker.c")], check=True)
            ports = [self.MEMIF.format(role=role, folder=self.folder) for role in ("server", "client")]
            self.repeated(f"{name}, 2 ranks", lambda: self.problem_of(self.ranks(launcher, ports), len(ports)))
            if reason := ordinary.why_not(self.stack.folder, UROCE):
                print(f"SKIPPED, {name} as an ordinary user: {reason}", file=sys.stderr, flush=True)
                continue
            job = self.ranks(launcher, ports, ("unshare", "--user", "--map-current-user", "--ipc"))
            os.chown(self.folder, ordinary.USER, ordinary.USER)
            self.repeated(f"{name}, 2 ranks of an ordinary user",
                          lambda: self.problem_of([*ordinary.COMMAND, *job], len(ports), {"HOME": str(self.folder)}))

    def test_four_ranks_on_a_bridge(self):
        compiler, launcher, package = self.IMPLEMENTATIONS["openmpi"]
        if self.stack.sanitizer_runtime or not self.needs(*compiler, launcher[0], package=package):
            return
        subprocess.run([*compiler, "-O2", "-o", str(self.folder / "checker"), str(HERE / "mpi_checker.c")], check=True)
        net = self.enterContext(namespaces.Namespaces(tcp=False))
        left, right = (net.name(side) for side in namespaces.SIDES)
        namespaces.ip("-n", right, "link", "add", "bridge", "type", "bridge")
        namespaces.ip("-n", right, "link", "set", "bridge", "up")
        for rank in range(4):
            namespaces.ip("link", "add", f"rank{rank}", "netns", left, "mtu", "4200", "type", "veth", "peer", "name", f"rank{rank}",
                          "netns", right, "mtu", "4200")
            namespaces.ip("-n", left, "link", "set", f"rank{rank}", "addrgenmode", "none", "up")
            namespaces.ip("-n", right, "link", "set", f"rank{rank}", "master", "bridge", "addrgenmode", "none", "up")
        job = self.ranks(launcher, [f"net_af_packet0,iface=rank{rank}" for rank in range(4)])
        self.repeated("openmpi, 4 ranks", lambda: self.problem_of(net.command("left", job), 4))

    def test_eight_ranks_of_one_service(self):
        """With one address, and without a word about devices."""
        for name, (compiler, launcher, package) in self.IMPLEMENTATIONS.items():
            if self.stack.sanitizer_runtime or not self.needs(*compiler, launcher[0], package=package):
                continue
            subprocess.run([*compiler, "-O2", "-o", str(self.folder / "checker"), str(HERE / "mpi_checker.c")], check=True)
            with host_service.Service(self.stack) as service:
                job = [*launcher, "-n", "8", UROCE, "run", "--", str(self.folder / "checker")]
                more = service.environment | {"UCX_TLS": "rc_verbs,ud_verbs,self"}
                self.repeated(f"{name}, 8 ranks of one service", lambda: self.problem_of(job, 8, more, host_service.COUNTERS))

    def test_one_sided_with_an_end_right_behind_it(self):
        """Three ranks and four of one service: a rank that has come to its end may be the target of what another has not completed."""
        compiler, launcher, package = self.IMPLEMENTATIONS["openmpi"]
        if self.stack.sanitizer_runtime or not self.needs(*compiler, launcher[0], package=package):
            return
        subprocess.run([*compiler, "-O2", "-o", str(self.folder / "checker"), str(HERE / "mpi_one_sided.c")], check=True)
        for ranks in 3, 4:
            with host_service.Service(self.stack) as service:
                job = [*launcher, "-n", str(ranks), UROCE, "run", "--", str(self.folder / "checker")]
                more = service.environment | {"UCX_TLS": "rc_verbs,ud_verbs,self"}
                self.repeated(f"openmpi, one-sided, {ranks} ranks of one service", lambda: self.problem_of(job, ranks, more, host_service.COUNTERS))


if __name__ == "__main__":
    reason = namespaces.why_not()
    if reason:
        print(f"SKIPPED, no network namespaces here: {reason}")
        sys.exit(programs.SKIPPED)
    programs.main("setpriv", "unshare", "ss")
