"""The beginning and the end of a suite that has the guest's kernel as the peer: arguments, what it needs, verdicts."""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import guest
import image
import link
import programs


def parser(description, things):
    """Of what all suites are told. `things`: what --only chooses from."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--only", metavar="TEXT", default="", help=f"{things} whose name contains it")
    made.add_argument("--list", action="store_true", help=f"the names of the {things}")
    made.add_argument("uroce", type=lambda path: Path(path).resolve())
    made.add_argument("libraries")
    made.add_argument("tests", type=lambda path: Path(path).resolve())
    made.add_argument("sanitizer_runtime", nargs="?", default="")
    return made


@contextlib.contextmanager
def run(untried, needed):
    """A folder while the suite runs. Where something cannot be had the process ends as a skipped test, and says that
    `untried` is so and why."""
    try:
        _check(needed)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        with tempfile.TemporaryDirectory(prefix="uroce-interop-") as folder:
            yield folder
    except (image.Unavailable, link.NoLink) as reason:
        print(f"SKIPPED, {untried}: {reason}")
        sys.exit(programs.SKIPPED)
    except guest.Died as death:
        print(f"THE GUEST DIED: {death}")
        sys.exit(guest.DIED)


def _check(needed):
    missing = [name for name in needed if shutil.which(name) is None]
    if missing:
        raise image.Unavailable(f"not installed: {', '.join(missing)} (apps/install-packages test brings them)")
    if os.geteuid() != 0:
        raise link.NoLink("it takes root, for a network namespace and the guest's taps")


def tell(name, began, problem):
    """Says what became of one of the things; whether it failed."""
    print(f"{'FAILED' if problem else 'ok':6} {time.monotonic() - began:6.1f} s  {name}", flush=True)
    for line in problem.splitlines():
        print(f"       | {line}", flush=True)
    return bool(problem)


def end(summary, failed, kernel_complaints):
    """Ends the process. `failed`: names."""
    for line in kernel_complaints:
        print(f"guest's kernel: {line}")
    print(f"{summary}, {len(failed)} failed")
    for name in failed:
        print(f"failed: {name}")
    sys.exit(1 if failed else 0)
