#!/usr/bin/env python3
"""A built face (libibverbs.so.1, liburocedv.so.1) has exactly the symbols and versions of its list, and all that
the distribution's library has. A program that names each starts, and what is not implemented fails with the errno that
the list says. The face refuses a stack of another version."""

import errno
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


# kind: what is returned, and the errno.
FAILURES = {"errno": (errno.EOPNOTSUPP, errno.EOPNOTSUPP), "null": (0, errno.EOPNOTSUPP),
            "minus_one": (-1, errno.EOPNOTSUPP), "sockets": (-1, errno.ENOSYS)}

PROGRAM = """
#include <errno.h>
#include <stdio.h>
struct Row { const char* name; long (*call)(void); int fails, result, error; };
%s
static const struct Row rows[] = {
%s};
int main(void) {
  int failed = 0;
  for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    const struct Row* row = &rows[i];
    errno = 0;
    if (row->call == NULL || (row->fails && ((int)row->call() != row->result || errno != row->error)))
      failed = printf("%%s: errno %%d\\n", row->name, errno);
  }
  return failed != 0;
}
"""


def start_of_a_program_that_names_all(table, library, stack):
    """What a program says that was linked with every symbol under its version and calls what is to fail."""
    names, rows = "", ""
    for number, (name, node, kind) in enumerate(words for line in table.read_text().splitlines()
                                                if (words := line.split("#")[0].split())):
        result, error = FAILURES.get(kind, (0, 0))
        names += f'extern long s{number}(void);\n__asm__(".symver s{number}, {name}@{node}");\n'
        rows += f'  {{"{name}@{node}", s{number}, {int(kind in FAILURES)}, {result}, {error}}},\n'
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "all.c", Path(folder) / "all"
        source.write_text(PROGRAM % (names, rows))
        paths = [f"-Wl,-rpath,{path.parent}" for path in (library, stack)]
        subprocess.run(["cc", "-fPIE", "-pie", source, "-o", program, library, *paths, "-Wl,-z,now",
                        "-Wl,--allow-shlib-undefined"], check=True)
        run = subprocess.run([program], capture_output=True, text=True, check=False)
        return "" if run.returncode == 0 else f"{run.stdout}{run.stderr} ({run.returncode})"


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
    if theirs.exists():
        failures.extend(f"{theirs}: missing here: {' '.join(symbol)}" for symbol in sorted(defined(theirs) - ours))
    instrumented = re.search(rb"__[at]san", stack.read_bytes())
    if not instrumented and (said := start_of_a_program_that_names_all(table, library.resolve(), stack.resolve())):
        failures.append(f"a program with every symbol of {library.name}: {said}")
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
