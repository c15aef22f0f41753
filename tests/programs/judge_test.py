#!/usr/bin/env python3
"""Random lists of requests between two processes on a faulty link, every byte and completion compared with a model (tests/judge).

    tests/programs/judge_test.py LIBRARY_FOLDER SANITIZER_RUNTIME JUDGE

UROCE_JUDGE_SEED=N gives every case that seed; the one that a case has otherwise is printed. UROCE_JUDGE_REQUESTS=N: so many requests in each.
UROCE_JUDGE_FAULT=NAME: that case only.
"""

import os
import sys
import unittest

import programs

REQUESTS = int(os.environ.get("UROCE_JUDGE_REQUESTS", 3000))
# Of a run; far more than it takes.
SECONDS_MAX = 120 + REQUESTS // 100
# What packets meet on their way to each end.
FAULTS = {
    "nothing": "",
    "loss": "loss=5%",
    "reordering": "reorder=10%",
    "duplication": "duplicate=20%",
    "delay": "delay=100us,jitter=90us",
    "corruption": "corrupt=3%",
    "refused receives": "nak=rnr:5%,loss=1%",
    "everything": "loss=2%,reorder=5%,duplicate=5%,corrupt=1%,delay=30us,jitter=30us",
}


class Judge(unittest.TestCase):
    def meet(self, faults, options):
        """A server and a client, each with its fault."""
        with programs.Pair(self.stack) as pair:
            command = [sys.argv[3], "-d", "uroce0", "-m", "1024", "-t", "12", "-p", str(pair.port)]
            ends = []
            for role, more, fault in (("server", options, faults[0]), ("client", [pair.server_address], faults[1])):
                end = self.stack.start([*command, *more], pair.configuration(role), {"UROCE_FAULT": fault} if fault else None)
                pair.processes.append(end)
                if role == "server":
                    programs.wait_until(lambda: programs.listens(pair.port, end.pid), end)
                ends.append(end)
            said = [programs.finish(end, SECONDS_MAX) for end in reversed(ends)]
        return said[1], said[0]

    def run_seed(self, fault, both):
        seed = os.environ.get("UROCE_JUDGE_SEED", str(int.from_bytes(os.urandom(4), "little")))
        faults = [fault and f"{fault},seed={int(seed) % 1000 + 1}"] * 2 if both else ["", fault and f"{fault},seed=7"]
        ends = self.meet(faults, ["-s", seed, "-n", str(REQUESTS)])
        story = f"UROCE_JUDGE_SEED={seed}, server {faults[0]}, client {faults[1]}:\n" + "\n".join(
            f"status {status}: {output}" for status, output in ends)
        print(story, flush=True)
        self.assertEqual([status for status, _ in ends], [0, 0], story)

    def test_faults_at_both_ends(self):
        only = os.environ.get("UROCE_JUDGE_FAULT")
        for name, fault in FAULTS.items():
            if only not in (None, name):
                continue
            with self.subTest(fault=name):
                self.run_seed(fault, both=True)

    def test_a_fault_at_one_end(self):
        if "UROCE_JUDGE_FAULT" not in os.environ:
            self.run_seed(FAULTS["everything"], both=False)


if __name__ == "__main__":
    programs.main()
