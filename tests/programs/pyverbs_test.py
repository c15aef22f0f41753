#!/usr/bin/env python3
"""rdma-core's own Python tests of the verbs (pyverbs), unmodified, over the built libraries.

Each test passes, or is skipped for something that we do not have and do not advertise; pyverbs_skips.txt says which and
why. A skip that is not there, one that did not happen, a failure and a test that did not run are failures of ours.

    tests/programs/pyverbs_test.py LIBRARY_FOLDER WORK_FOLDER [SANITIZER_RUNTIME]

The tests are documentation of Debian's package python3-pyverbs. Where documentation is not installed they are fetched
into WORK_FOLDER.
"""

import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import programs

PYTHON = "/usr/bin/python3"  # pyverbs is made for this one
PACKAGE = "python3-pyverbs"
INSTALLED = Path("/usr/share/doc/rdma-core/tests")
MODULES = ("test_device", "test_pd", "test_addr", "test_mr", "test_cq", "test_cq_events", "test_cqex", "test_qp", "test_qpex",
           "test_atomic", "test_relaxed_ordering", "test_parent_domain", "test_fork")
# These want to find the address of a network interface that belongs to the device, and two hosts.
CONNECTED = ("test_rdmacm",)
INTERFACE = """
mount -t tmpfs none /sys/class
mkdir -p /sys/class/infiniband/uroce0/device/net/lo
ip address add 192.0.2.1/24 dev lo
exec "$@"
"""
SKIPS = Path(__file__).with_name("pyverbs_skips.txt")
ONE_POLLER = """
device = [ { name = "uroce0", port = "loopback0", mac = "02:00:00:00:00:01", addresses = ["192.0.2.1/24"] } ]
"""
TWO_POLLERS = ONE_POLLER + "poller.per_device = 2\n"
TIME_LIMIT_SECONDS = 240


def run_or_skip(command, what, folder):
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"SKIPPED, {what}: {done.stderr.strip() or done.stdout.strip()}")
        sys.exit(programs.SKIPPED)
    return done.stdout.strip()


def folder_of_tests(work):
    """A folder `tests` with the modules, unpacked."""
    version = run_or_skip(["dpkg-query", "-W", "-f", "${Version}", PACKAGE], f"{PACKAGE} is not installed", "/")
    run_or_skip([PYTHON, "-c", "import pyverbs"], f"{PACKAGE} is not installed", "/")
    ready = work / f"pyverbs-tests-{version.replace(':', '_')}"
    if ready.exists():
        return ready
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        source = INSTALLED
        if not (source / "base.py.gz").exists() and not (source / "base.py").exists():
            run_or_skip(["apt-get", "download", "-q", f"{PACKAGE}={version}"], f"the tests of {PACKAGE} cannot be fetched", folder)
            run_or_skip(["dpkg-deb", "-x", next(Path(folder).glob("*.deb")), "unpacked"], "unpacking", folder)
            source = Path(folder, "unpacked", *INSTALLED.parts[1:])
        unpack(source, Path(folder, "ready", "tests"))
        # All or nothing, also when two runs do it at once.
        try:
            Path(folder, "ready").rename(ready)
        except OSError:
            if not ready.exists():
                raise
    return ready


def unpack(source, target):
    target.mkdir(parents=True)
    for file in source.iterdir():
        if file.suffix == ".gz":
            (target / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        elif file.is_file():
            shutil.copyfile(file, target / file.name)


def hugepages(count):
    """How many pages of 2 MB there are: "nr" for all, by which pyverbs decides, and "free" for what it gets."""
    file = Path(f"/sys/kernel/mm/hugepages/hugepages-2048kB/{count}_hugepages")
    return int(file.read_text()) if file.exists() else 0


def expected_skips():
    """{test: why}, of this machine."""
    skips = {}
    for line in SKIPS.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        test, _, why = line.partition(" ")
        why = why.strip()
        assert why, f"{SKIPS.name} does not say why {test} is skipped"
        assert test not in skips, f"{SKIPS.name} names {test} twice"
        if why.startswith("[hugepages]") and hugepages("nr") > 0:
            continue
        skips[test] = why
    return skips


class Outcomes:
    def __init__(self, file):
        self.found = []
        self.became = {}  # test: (what, why); the worst, if there is more than one
        if not file.exists():
            return
        for line in file.read_text().splitlines():
            told = json.loads(line)
            test = told["test"]
            if told["what"] == "found":
                self.found.append(test)
            elif self.became.get(test, ("started", ""))[0] != "failed":
                self.became[test] = (told["what"], told["why"])

    def complaints(self, skips):
        for test in self.found:
            # Others have them all: it can neither run nor know that it should be skipped.
            if "huge_page" in test and hugepages("nr") > 0 and hugepages("free") < 4:
                continue
            what, why = self.became.get(test, ("not run", ""))
            if what == "skipped" and test not in skips:
                yield f"{test}: skipped, and {SKIPS.name} does not expect it: {why}"
            elif what == "passed" and test in skips:
                yield f"{test}: passed; {SKIPS.name} still says that it is skipped: {skips[test]}"
            elif what == "started":
                yield f"{test}: was under way when the run ended"
            elif what not in ("passed", "skipped"):
                yield f"{test}: {what}\n{why}"
        for test in self.became:
            if test not in self.found:  # of a class or module as a whole
                yield f"{test}: {self.became[test]}"


class Pyverbs(unittest.TestCase):
    maxDiff = None

    def run_modules(self, configuration, modules, surroundings):
        with tempfile.TemporaryDirectory(prefix="uroce-pyverbs-") as folder:
            told = Path(folder, "outcomes")
            command = [PYTHON, "-B", Path(__file__).with_name("pyverbs_run.py"), self.tests, told, *modules]
            process = self.stack.start([*surroundings, *command], configuration)
            try:
                output = programs.said_by(process, TIME_LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                output = "it hung\n" + programs.said_by(process)
            return process.returncode, output, Outcomes(told)

    def expect_success(self, configuration, modules=MODULES, surroundings=()):
        status, output, outcomes = self.run_modules(configuration, modules, surroundings)
        skips = {test: why for test, why in expected_skips().items() if test.split(".")[1] in modules}
        complaints = list(outcomes.complaints(skips))
        complaints += [f"{test}: in {SKIPS.name}, but there is no such test" for test in skips if test not in outcomes.found]
        complaints += [f"tests.{module}: no test was found in it" for module in modules
                       if not any(test.startswith(f"tests.{module}.") for test in outcomes.found)]
        if status != 0:
            complaints.append(f"the run ended with {status}")
        if complaints:
            complaints.append(f"it said:\n{output}")
        counts = {what: sum(became[0] == what for became in outcomes.became.values()) for what in ("passed", "skipped")}
        print(f"{counts['passed']} passed, {counts['skipped']} skipped of {len(outcomes.found)}")
        self.assertFalse(complaints, "\n".join(["", *complaints]))

    def test_one_poller(self):
        self.expect_success(ONE_POLLER)

    def test_two_pollers(self):
        self.expect_success(TWO_POLLERS)

    def test_connection_manager(self):
        own_network = ["unshare", "--mount", "--net", "sh", "-e", "-c", INTERFACE, "sh"]
        done = subprocess.run([*own_network, "true"], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"no namespaces here: {done.stderr.strip()}")
        try:
            self.expect_success(ONE_POLLER, CONNECTED, own_network)
        except AssertionError as failure:
            # Three processes that poll wait for each other, and for a few seconds only.
            print(f"once more, after this:{failure}")
            self.expect_success(ONE_POLLER, CONNECTED, own_network)


if __name__ == "__main__":
    Pyverbs.tests = folder_of_tests(Path(sys.argv.pop(2)).resolve())
    programs.main()
