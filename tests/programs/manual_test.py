#!/usr/bin/env python3
"""The man page, --help, the parser's list of configuration keys and the environment that is read name the same things.
The pages of <infiniband/urocedv.h> have all its functions.

    tests/programs/manual_test.py UROCE FOLDER_OF_SECTION_3
"""

import ctypes
import errno
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

UROCE = sys.argv[1]
SECTION_3 = pathlib.Path(sys.argv[2])
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "apps/uroce.1"
MANUAL = PAGE.read_text()
COMMANDS = ("run", "serve", "status", "fault", "decode", "dump", "stat", "qp", "top", "exporter", "explain", "reload", "perf", "nvmf", "mem", "info")


def section(name):
    """A section of the man page, from its heading to the next."""
    return re.search(rf"^\.Sh {name}\n(.*?)(?=^\.Sh |\Z)", MANUAL, re.M | re.S)[1]


def options_in(text):
    """The options that a piece of the man page describes."""
    return set(re.findall(r"^\.It .*?Fl -([a-z0-9-]+)", text, re.M))


def options_of(command):
    """The options that --help of a command lists, with --help-all if it has a configuration."""
    all_of_them = command and command[0] in ("run", "serve", "perf", "nvmf", "info")
    done = subprocess.run([UROCE, *command, "--help-all" if all_of_them else "--help"], capture_output=True, text=True, check=True)
    return set(re.findall(r"^  (?:-\w,)?--([a-z0-9-]+)", done.stdout, re.M))


def keys():
    folder = ROOT / "lib/engine/configuration"
    source = "".join((folder / name).read_text() for name in ("keys.cc", "congestion_keys.cc"))
    named = set(re.findall(r'\{"([a-z]+\.[a-z0-9_]+)",', source))
    return named | {f"congestion.{parameter['key']}" for algorithm in algorithms() for parameter in algorithm["parameters"]}


def algorithms():
    """The rows of congestion control, with their texts and parameters."""
    table = (ROOT / "lib/qp/congestion/algorithms.h").read_text()
    table = re.search(r"kCongestionAlgorithms\[\] = \{\n(.*?)^\};", table, re.M | re.S)[1]
    rows = []
    for name, row in re.findall(r'^    \{\.name = "(\w+)"(.*?)(?=^    \{|\Z)', table, re.M | re.S):
        help_of, *parameters = (re.sub(r'"\s*"', "", text) for text in re.split(r"\.key = ", row))
        rows.append({"name": name, "help": re.search(r'\.help = "([^"]*)"', help_of)[1], "parameters": [
            {"key": re.match(r'"(\w+)"', text)[1], "unit": re.search(r'\.unit = "([^"]*)"', text)[1],
             "initial": re.search(r"\.initial = ([\d']+)|$", text)[1] or "0", "help": re.search(r'\.help = "([^"]*)"', text)[1]}
            for text in parameters]})
    return rows


class Manual(unittest.TestCase):
    def test_every_configuration_key_is_described(self):
        self.assertGreater(len(keys()), 10)
        self.assertEqual(set(re.findall(r"^\.It Ic ([a-z0-9_.]+)", section("CONFIGURATION"), re.M)), keys())

    def test_every_algorithm_of_congestion_control_is_described_as_in_the_table(self):
        def text_of(key):
            item = re.search(rf"^\.It Ic congestion\.{key} , .*\n((?:(?!\.It ).*\n)+)", section("CONFIGURATION"), re.M)
            return re.sub(r"\n(\.Pq )?", " ", item[1])

        self.assertGreater(len(algorithms()), 2)
        self.assertIn(f"Ar {' | '.join(row['name'] for row in algorithms())}\n", section("CONFIGURATION"))
        for row in algorithms():
            self.assertRegex(text_of("control"), rf"\b{row['name']}\b( default )?: ?{re.escape(row['help'])}[;.]")
            for parameter in row["parameters"]:
                told = f"{row['name']}: {parameter['help']} (in {parameter['unit']}, {parameter['initial']} by default)."
                self.assertEqual(text_of(parameter["key"])[:len(told)], told)

    def test_every_option_is_described_where_it_belongs(self):
        always = options_in(section("DESCRIPTION"))
        self.assertEqual(always, options_of([]))
        configuration = options_in(section("CONFIGURATION")) | {"help"}
        self.assertGreater(len(configuration), len(keys()))
        self.assertEqual(configuration | options_in(section("OPTIONS OF RUN")), options_of(["run"]))
        self.assertEqual(configuration | options_in(section("OPTIONS OF SERVE")), options_of(["serve"]))
        # All of its commands together.
        commands = ("list", "get", "put", "serve")
        self.assertEqual({"help"} | options_in(section("OPTIONS OF MEM")), set().union(*(options_of(["mem", command]) for command in commands)))
        self.assertEqual({"help"} | options_in(section("OPTIONS OF STATUS")), options_of(["status"]))
        faults = set().union(*(options_of(["fault", command]) for command in ("add", "list", "clear", "break")))
        self.assertEqual({"help"} | options_in(section("OPTIONS OF FAULT")), faults)
        self.assertEqual({"help"} | options_in(section("OPTIONS OF STAT")), options_of(["stat"]))
        self.assertEqual({"help"} | options_in(section("OPTIONS OF QP")), options_of(["qp", "list"]) | options_of(["qp", "show"]))
        self.assertEqual({"help"} | options_in(section("OPTIONS OF TOP")), options_of(["top"]))
        self.assertEqual({"help"} | options_in(section("OPTIONS OF EXPORTER")), options_of(["exporter"]))
        self.assertEqual({"help"} | options_in(section("OPTIONS OF RELOAD")), options_of(["reload"]))
        self.assertEqual({"help"} | options_in(section("OPTIONS OF DUMP")), options_of(["dump"]))
        self.assertEqual({"help"} | options_in(section("OPTIONS OF DECODE")), options_of(["decode"]))
        self.assertEqual(configuration | options_in(section("OPTIONS OF INFO")), options_of(["info"]))
        self.assertEqual(configuration | options_in(section("OPTIONS OF PERF")), options_of(["perf"]))

    def test_every_command_is_described(self):
        overview = subprocess.run([UROCE, "--help"], capture_output=True, text=True, check=True).stdout
        listed = re.findall(r"^  ([a-z]+) ", overview.split("Subcommands:")[1], re.M)
        self.assertEqual(sorted(listed), sorted(COMMANDS))
        for command in listed:
            self.assertRegex(section("SYNOPSIS"), rf"\.Cm {command}\n")
            self.assertRegex(section("DESCRIPTION"), rf"\.It Cm {command}\n")

    def test_every_counter_is_described_as_in_the_table(self):
        table = re.findall(r'^  X\(\w+, "(\w+)", "([^"]*)", "([^"]*)"\)', (ROOT / "lib/base/counters/counters.h").read_text(), re.M)
        self.assertGreater(len(table), 70)
        page = re.findall(r"^\.It Sy (\w+) Pq (\w+)\n((?:[^.].*\n)+)", section("COUNTERS"), re.M)
        self.assertEqual([(name, unit, text.replace("\n", " ").strip()) for name, unit, text in page],
                         [(name, unit, text + ".") for name, unit, text in table])

    def test_every_completion_status_is_explained(self):
        def explain(*words):
            return subprocess.run([UROCE, "explain", *words], capture_output=True, text=True)

        page = re.findall(r"^\.It Dv (IBV_WC_\w+) Pq (\d+)\n((?:[^.].*\n)+)", section("COMPLETION STATUSES"), re.M)
        header = re.search(r"enum ibv_wc_status \{(.*?)\}", pathlib.Path("/usr/include/infiniband/verbs.h").read_text(), re.S)[1]
        statuses = [(name, str(number)) for number, name in enumerate(re.findall(r"IBV_WC_\w+", header))]
        self.assertEqual([(name, number) for name, number, _ in page], statuses)
        names = re.findall(r"^ *(\d+) (\w+)$", explain().stdout, re.M)
        self.assertEqual([(name, number) for number, name in names if name.startswith("IBV_WC_")], statuses)
        for name, number, meaning in page:
            said = explain(name)
            self.assertEqual((said.returncode, said.stderr), (0, ""))
            self.assertIn(said.stdout, explain(number).stdout)
            self.assertTrue(said.stdout.startswith(f"{name} (completion status {number})\n"))
            if "Not reported" not in meaning:
                self.assertIn(meaning.replace("\n", " ").strip(), said.stdout)
        # Those of the C library have its numbers.
        for number, name in names[len(statuses):]:
            self.assertEqual(getattr(errno, name), int(number))
            self.assertTrue(explain(f"-{number}").stdout.startswith(f"{name} (errno {number})\n"))
        self.assertEqual(explain("12").stdout.count("\n  Look at: "), 2, "a status and ENOMEM")
        self.assertTrue(explain("retry_exc_err").stdout.startswith("IBV_WC_RETRY_EXC_ERR"))
        for text, name in (("transport retry counter exceeded", "IBV_WC_RETRY_EXC_ERR"), ("RETRY_EXC", "IBV_WC_RETRY_EXC_ERR"),
                           ("remote access error", "IBV_WC_REM_ACCESS_ERR"), ("Cannot allocate memory", "ENOMEM")):
            self.assertTrue(explain(text).stdout.startswith(f"{name} ("))
            self.assertEqual(explain(*text.split()).stdout, explain(text).stdout)
        # The texts of rdma-core, which are ours, too (queue/status_text.h).
        text_of = ctypes.CDLL(str(next(pathlib.Path("/usr/lib").glob("*/libibverbs.so.1")))).ibv_wc_status_str
        text_of.restype = ctypes.c_char_p
        for name, number in statuses:
            self.assertTrue(explain(text_of(int(number)).decode()).stdout.startswith(f"{name} ("), name)
        for word in ("999", "IBV_WC_", "nothing", ""):
            said = explain(word)
            self.assertEqual((said.returncode, said.stdout), (1, ""))
            self.assertRegex(said.stderr, r"\Auroce explain: [^\n]*\n\Z")

    def test_every_variable_that_is_read_is_described(self):
        read = set()
        for folder in ("lib", "apps", "drivers"):
            for source in (ROOT / folder).rglob("*.cc"):
                read |= set(re.findall(r'getenv\("(UROCE_[A-Z_]+)"\)', source.read_text()))
        self.assertIn("UROCE_CONFIG", read)
        self.assertEqual(set(re.findall(r"^\.It Ev (UROCE_[A-Z_]+)", section("ENVIRONMENT"), re.M)), read)

    def test_exit_statuses_are_described(self):
        source = (ROOT / "apps/launch/run.h").read_text() + (ROOT / "apps/uroce.cc").read_text()
        for status in re.findall(r"constexpr int k\w+ = (\d+);", source):
            self.assertRegex(section("EXIT STATUS"), rf"\b{status}\b")

    def test_every_function_of_the_extensions_has_a_page(self):
        header = (ROOT / "lib/verbs/include/infiniband/urocedv.h").read_text()
        symbols = (ROOT / "lib/verbs/faces/urocedv_symbols.txt").read_text()
        functions = set(re.findall(r"^(urocedv_\w+) ", symbols, re.M))
        functions |= set(re.findall(r"^static inline .*?(urocedv_\w+)\(", header, re.M))
        self.assertGreater(len(functions), 30)
        for function in functions:
            page = SECTION_3 / f"{function}.3"
            text = page.read_text()
            if text.startswith(".so "):
                text = (SECTION_3 / re.fullmatch(r"\.so man3/(\w+\.3)\n", text)[1]).read_text()
            self.assertRegex(text, rf"(?m)^\.Nm {function}\b")
            self.assertIn(function + "(", text)
        # What a comment of the header says is there.
        self.assertIn("Mapping the same memory twice gives two addresses.", (SECTION_3 / "urocedv_bus_addresses.3").read_text())

    def test_they_are_well_formed(self):
        self.expect_well_formed(PAGE)
        pages = [page for page in SECTION_3.glob("urocedv_*.3") if not page.read_text().startswith(".so ")]
        self.assertGreater(len(pages), 5)
        for page in pages:
            self.expect_well_formed(page)

    def expect_well_formed(self, page):
        checks = {"mandoc": ["mandoc", "-T", "lint", "-W", "warning", str(page)],
                  "groff": ["groff", "-mdoc", "-ww", "-z", str(page)]}
        there = [name for name in checks if shutil.which(name)]
        if not there:
            self.skipTest("neither mandoc nor groff is installed")
        for name in there:
            done = subprocess.run(checks[name], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (0, ""), f"{name} {page}: {done.stderr}")


unittest.main(argv=sys.argv[:1], verbosity=2)
