"""Rows of perf/micro/block_bench, for perf/run: the driver `file` beside fio, both through io_uring and past the page
cache, with registered memory and files, on the same file, in turns."""

import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile

from rows import Row, command

FILE_BYTES = 256 << 20
TURNS = 10  # a disk that others use, too, is not the same for long
LOADS = [('randread4k', 'randread', 4096, 1), ('randread4k', 'randread', 4096, 32), ('randwrite4k', 'randwrite', 4096, 32),
         ('read128k', 'read', 131072, 32), ('write128k', 'write', 131072, 32)]


def fio(path, pattern, size, depth, seconds):
    report = json.loads(command(
        ['fio', '--name=block', f'--filename={path}', f'--rw={pattern}', f'--bs={size}', f'--iodepth={depth}',
         f'--size={FILE_BYTES}', '--ioengine=io_uring', '--direct=1', '--fixedbufs=1', '--registerfiles=1', '--norandommap=1',
         f'--iodepth_batch_submit={depth}', f'--iodepth_batch_complete_max={depth}', '--time_based',
         f'--runtime={round(seconds * 1000)}ms', '--output-format=json']))['jobs'][0]
    return report['write' if pattern.endswith('write') else 'read']['iops']


def block(program, duration):
    """Requests per second."""
    if not shutil.which('fio'):
        print('perf/run: block: fio is absent, the rows have nothing beside them (apps/install-packages peers)', file=sys.stderr)
    # On the disk that the build is on: /tmp may be memory.
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        path = pathlib.Path(folder, 'blocks')
        with open(path, 'wb') as file:
            for _ in range(FILE_BYTES >> 20):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
        for name, pattern, size, depth in LOADS:
            ours, theirs = [], []
            for _ in range(TURNS):
                ours.append(float(command([program, path, pattern, size, depth, duration])))
                if shutil.which('fio'):
                    theirs.append(fio(path, pattern, size, depth, duration))
            yield Row(f'block.file.{name}.qd{depth}', statistics.median(ours), '1/s',
                      statistics.median(theirs) if theirs else None, 'fio')
