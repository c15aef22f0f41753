#!/usr/bin/env python3
"""A built face (libibverbs.so.1, liburocedv.so.1) has exactly the symbols and versions of its list, and of the
distribution's library where there is one; it refuses a stack of another version."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DISTRIBUTION = Path("/usr/lib/x86_64-linux-gnu")


def defined(library):
    """{(name, node, type)} of the default versions."""
    lines = subprocess.run(["readelf", "--dyn-syms", "-W", str(library)], check=True, capture_output=True, text=True)
    found = set()
    for line in lines.stdout.splitlines():
        words = line.split()
        if len(words) == 8 and words[6] != "UND" and "@@" in words[7]:
            name, node = words[7].split("@@")
            if name != node:
                found.add((name, node, words[3]))
    return found


def listed(path):
    words = [line.split("#")[0].split() for line in path.read_text().splitlines()]
    return {(w[0], w[1], "OBJECT" if w[2] == "data" else "FUNC") for w in words if w}


def is_of_our_age(distribution):
    """Older and newer ones have other symbols. The first node is of libibverbs.so.1, the others of librdmacm.so.1."""
    return b"IBVERBS_PRIVATE_34" in distribution or b"RDMACM_1.3" in distribution and b"RDMACM_1.4" not in distribution


def refusal_of_another_version(library, stack):
    """What ld.so says when the face wants a stack of another version; empty when it loads all the same."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(stack, Path(folder) / "liburoce.so.0")
        other = Path(folder) / library.name
        other.write_bytes(re.sub(rb"UROCE_PRIVATE_\d", b"UROCE_PRIVATE_x", library.read_bytes()))
        load = f"import ctypes; ctypes.CDLL({str(other)!r})"
        return subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, check=False).stderr


def main():
    table, library, stack = map(Path, sys.argv[1:])
    failures = []

    def expect_equal(what, ours, theirs):
        for sign, difference in (("missing", theirs - ours), ("too many", ours - theirs)):
            failures.extend(f"{what}: {sign}: {' '.join(symbol)}" for symbol in sorted(difference))

    ours = defined(library)
    expect_equal(table.name, ours, listed(table))
    name = ".".join(library.name.split(".")[:3])
    theirs = DISTRIBUTION / name
    if theirs.exists() and is_of_our_age(theirs.read_bytes()):
        expect_equal(str(theirs), ours, defined(theirs))
    dynamic = subprocess.run(["readelf", "-dVW", str(library)], check=True, capture_output=True, text=True).stdout
    for pattern in (rf"SONAME.*\[{re.escape(name)}\]", r"NEEDED.*\[liburoce\.so\.0\]", r"RUNPATH.*\$ORIGIN",
                    r"Name: UROCE_PRIVATE_\d+\.\d+"):
        if not re.search(pattern, dynamic):
            failures.append(f"{library}: no {pattern}")
    exported = {name for name, _, _ in defined(stack)}
    failures.extend(f"{stack}: exports {name}" for name in sorted(exported) if not name.startswith("uroce"))
    if "UROCE_PRIVATE_x" not in refusal_of_another_version(library, stack) and b"__asan" not in stack.read_bytes():
        failures.append(f"{library}: loads over a stack of another version")
    print("\n".join(failures) or f"{len(ours)} symbols as they should be")
    return 1 if failures else 0


sys.exit(main())
