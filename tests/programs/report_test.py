#!/usr/bin/env python3
"""perf/report writes a table of figures and a plot of each, whatever the figures are.

    report_test.py REPORT BUILD_FOLDER
"""
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

REPORT, BUILD = sys.argv[1:3]
LIMIT_SECONDS = 500  # it takes less than a minute; a slow machine is no failure, a hang is
TITLES = {"Queue pairs", "Memory regions", "Length of messages", "Goodput by length", "Pollers, one thread"}


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.to = Path(cls.folder.name) / "of" / "this" / "machine"
        run = subprocess.run([REPORT, cls.to, "--short", "--build", BUILD], capture_output=True, text=True, timeout=LIMIT_SECONDS)
        assert run.returncode == 0, run.stdout + run.stderr
        cls.plotted = "without plots" not in run.stderr
        cls.text = (cls.to / "report.md").read_text()
        cls.parts = {part.split("\n")[0]: part for part in re.split(r"^## ", cls.text, flags=re.M)[1:]}

    def test_has_all_tables(self):
        self.assertLessEqual(TITLES, set(self.parts))
        self.assertRegex(self.text, r"\| CPU \| .*\w")
        self.assertRegex(self.text, r"\| load \| \d")

    def test_figures_are_positive_numbers(self):
        for title, part in self.parts.items():
            head, _, *lines = [line for line in part.splitlines() if line.startswith("|")]
            self.assertGreaterEqual(len(lines), 2, title)
            for line in lines:
                x, *figures = (cell.strip() for cell in line.strip("|").split("|"))
                self.assertEqual(len(figures), head.count("|") - 2, line)
                for one in figures:
                    self.assertGreater(float(one), 0, f"{title}: {x}")

    def test_each_table_has_its_plot(self):
        if not self.plotted:
            self.assertNotIn(".svg", self.text)
            self.skipTest("python3-matplotlib is not installed (apps/install-packages report)")
        names = re.findall(r"\]\((\w+\.svg)\)", self.text)
        self.assertEqual(len(names), len(self.parts))
        self.assertEqual(sorted(names), sorted(path.name for path in self.to.glob("*.svg")))
        for name in names:
            self.assertTrue(xml.etree.ElementTree.parse(self.to / name).getroot().tag.endswith("svg"), name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
