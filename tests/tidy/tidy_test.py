#!/usr/bin/env python3
"""Shows that tidy.py and documents.py notice what they are there for: plants one breach at a time in a small tree."""
import pathlib
import subprocess
import sys
import tempfile

TIDY = pathlib.Path(__file__).with_name('tidy.py')
DOCUMENTS = pathlib.Path(__file__).with_name('documents.py')

CASES = [
    ('a clean tree', 'lib/qp/a.cc', '#include "mem/region.h"\n', None),
    ('an upward include', 'lib/wire/a.cc', '#include "engine/device/device.h"\n', 'upwards'),
    ('a sideways include', 'lib/qp/a.cc', '#include "net/gid_table.h"\n', 'sideways'),
    ('a driver that sees the engine', 'drivers/port/a.cc', '#include "engine/device/device.h"\n', 'upwards'),
    ('a block driver', 'drivers/block/ram/a.cc', '#include "block/block.h"\n#include "drivers/block/fifo.h"\n', None),
    ('a block driver that sees the stack', 'drivers/block/ram/a.cc', '#include "mem/region.h"\n', 'base and block only'),
    ('a block driver that sees ports', 'drivers/block/ram/a.cc', '#include "drivers/registry.h"\n', 'sideways'),
    ('a block driver with DPDK', 'drivers/block_registry.cc', '#include <rte_mbuf.h>\n', 'DPDK'),
    ('a port that sees block drivers', 'drivers/port/a.cc', '#include "drivers/block_registry.h"\n', 'sideways'),
    ('liburing in the stack', 'lib/qp/a.cc', '#include <liburing.h>\n', 'liburing'),
    ('the target', 'lib/nvmf/queue/a.cc', '#include "block/block.h"\n#include "base/time.h"\n#include "nvmf/queue/queue.h"\n', None),
    ('a target that sees the stack', 'lib/nvmf/queue/a.cc', '#include "qp/queue_pair.h"\n', 'nvmf sees base and block only'),
    ('a target that sees the engine', 'lib/nvmf/queue/a.cc', '#include "engine/device/device.h"\n', 'nvmf sees base and block only'),
    ('a client that sees the stack', 'lib/client/a.cc', '#include "wire/frame.h"\n', 'client sees base only'),
    ('a host that sees the stack', 'lib/nvmf_host/a.cc', '#include "mem/region.h"\n', 'nvmf_host sees base and nvmf only'),
    ('a target that sees drivers', 'lib/nvmf/queue/a.cc', '#include "drivers/block_registry.h"\n', 'nvmf sees base and block only'),
    ('a room below another', 'lib/nvmf/queue/a.cc', '#include "nvmf/format/nvme.h"\n', None),
    ('a room that sees one above', 'lib/nvmf/format/a.cc', '#include "nvmf/queue/queue.h"\n', 'nvmf/format -> nvmf/queue'),
    ('a file in no room', 'lib/engine/a.cc', '', 'no room of engine'),
    ('a policy', 'lib/qp/congestion/a.cc', '#include "qp/congestion/a.h"\n#include "wire/packet.h"\n', None),
    ('a policy that sees the rest of its module', 'lib/qp/congestion/a.cc', '#include "qp/connection.h"\n', 'qp/congestion sees nothing else of qp'),
    ('a file that includes itself', 'lib/qp/a.h', '#pragma once\n#include "qp/a.h"\n', None),
    ('a clock in the target', 'lib/nvmf/queue/a.cc', 'auto t = std::chrono::steady_clock::now();\n', 'clock'),
    ('DPDK below engine', 'lib/qp/a.cc', '#include <rte_mbuf.h>\n', 'DPDK'),
    ('a clock below engine', 'lib/qp/a.cc', 'auto t = std::chrono::steady_clock::now();\n', 'clock'),
    ('randomness below engine', 'lib/mem/a.cc', 'std::random_device device;\n', 'randomness'),
    ('a benchmark that sees tests', 'perf/micro/a.cc', '#include "tests/nvmf/host.h"\n', 'file of tests/'),
    ('a thread that is somebody', 'lib/base/a.cc', '// Whoever gets it frees it.\n', '"Whoever" in a comment'),
    ('a parameter called who', 'lib/base/a.cc', '// `who` hears of it.\nint a(int who);\n', None),
    ('a doc comment that goes on with another', 'lib/base/a.cc', '/// ... that begins here.\nvoid a();\n', 'cannot be read alone'),
    ('a doc comment for the next one, too', 'lib/base/a.cc', '/// Any thread, as the next.\nvoid a();\n', 'cannot be read alone'),
    ('a doc comment that leans on another', 'lib/base/a.cc', '/// The same for pollers.\nvoid a();\n', 'cannot be read alone'),
    ('a doc comment of two lines', 'lib/base/a.cc', '/// Frees the frame, and all\n/// Of the others, too.\nvoid a();\n', None),
    ('a name that says nothing', 'lib/base/string_util.h', '#pragma once\n', 'says nothing'),
    ('something new at the top', 'src/a.cc', '\n', 'top level'),
    ('a header without guard', 'lib/base/a.h', 'int a();\n', 'guard'),
    ('a long function', 'lib/base/a.cc', 'void f() {\n' + '  g();\n' * 70 + '}\n', 'long function'),
    ('a long file', 'lib/base/a.cc', '// x\n' * 401, 'long file'),
]

# More than one file.
TREES = [
    ('a circle', {'lib/qp/a.h': '#pragma once\n', 'lib/qp/a.cc': '#include "qp/b.h"\n', 'lib/qp/b.h': '#pragma once\n#include "qp/a.h"\n'},
     'circle of includes: lib/qp/a, lib/qp/b'),
    ('a source that has no header', {'lib/qp/a.h': '#pragma once\n', 'lib/qp/c.cc': '#include "qp/b.h"\n',
                                     'lib/qp/b.h': '#pragma once\n#include "qp/a.h"\n'}, None),
]

DOCUMENT_CASES = [
    ('a document', 'lib/README.md', 'See [tests](README.md) and `lib/README.md`.\n', None),
    ('a link to nothing', 'lib/README.md', 'See [tests](tests.md).\n', 'links to tests.md'),
    ('a path to nothing', 'lib/README.md', 'See `lib/qp/gone.cc`.\n', 'names lib/qp/gone.cc'),
    ('a pattern of paths', 'lib/README.md', 'See `lib/READ*.md`.\n', None),
    ('a citation of something elsewhere', 'drivers/a.h', '/// As gone.md says.\n', 'cites gone.md'),
    ('a README that nobody reads', 'README.md', 'word ' * 4000, 'at most'),
    ('a module without README', 'lib/qp/a.h', '', 'has no README.md'),
]


def main():
    bad = 0
    cases = [(TIDY, name, {path: text}, expected) for name, path, text, expected in CASES]
    cases += [(TIDY, *tree) for tree in TREES]
    cases += [(DOCUMENTS, name, {path: text}, expected) for name, path, text, expected in DOCUMENT_CASES]
    for checker, name, files, expected in cases:
        with tempfile.TemporaryDirectory() as tree:
            for path, text in files.items():
                file = pathlib.Path(tree, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            run = subprocess.run([sys.executable, str(checker), tree], capture_output=True, text=True)
            reported_only = expected is not None and expected.startswith('long')
            good = (expected is None or expected in run.stdout) and run.returncode == (0 if expected is None or reported_only else 1)
        print(('ok  ' if good else 'FAIL'), name)
        if not good:
            print(run.stdout, run.stderr)
            bad += 1
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
