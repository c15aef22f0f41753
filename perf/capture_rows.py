"""Rows of `uroce dump` beside traffic of a million frames a second, for perf/run.

`.captured` of `.frames` are in the file, `.lost` were counted as lost, `.uncounted` are neither. Without a CPU each for traffic and
capture, frames are lost.
"""

import json
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import time

from rows import Failure, Row

DEVICE = '[[device]]\nname = "uroce0"\nport = "loopback0"\naddresses = ["192.0.2.1/24"]\n'
# Of both ends, a frame for each message and one for its ACK: a million a second at that rate.
TRAFFIC = ['--op', 'write', '--size', '64', '--queue-pairs', '4']
LOADS = ('1m', ['--rate', '500k']), ('most', [])
SECONDS = 2
RUNS = 3


class Capture:
    def __init__(self, build):
        self.build = build

    def rows(self):
        for name, load in LOADS:
            runs = [(self.run(load, captured=False), self.run(load, captured=True)) for _ in range(RUNS)]
            plain, captured = (statistics.median(run[i]['rate'] for run in runs) for i in range(2))
            beside = [run[1] for run in runs]
            sent, seen, lost = (statistics.median(run[what] for run in beside) for what in ('sent', 'captured', 'lost'))
            yield Row(f'capture.{name}.frames', sent / 1e6, 'M', note='sent by the program in each run')
            yield Row(f'capture.{name}.captured', seen / 1e6, 'M')
            yield Row(f'capture.{name}.lost', lost / 1e6, 'M')
            yield Row(f'capture.{name}.uncounted', max(abs(run['sent'] - run['captured'] - run['lost']) for run in beside), 'frames')
            yield Row(f'capture.{name}.rate', captured / 1e6, 'M/s', plain / 1e6, 'not captured')
            yield Row(f'capture.{name}.dump_ns', statistics.median(run['dump_ns'] for run in beside), 'ns')

    def run(self, load, captured):
        """Both ends are one program of a private service; what is captured is in memory."""
        with tempfile.TemporaryDirectory(dir='/dev/shm') as folder:
            folder = pathlib.Path(folder)
            service = self.serve(folder)
            try:
                dump = self.dump(folder) if captured else None
                told, sent = self.traffic(folder, load)
                figures = {'rate': told['write.64.there.messages_per_second'], 'sent': sent}
                return figures | (self.ended(dump) if captured else {})
            finally:
                service.terminate()
                service.wait()

    def serve(self, folder):
        (folder / 'service.toml').write_text(DEVICE)
        service = subprocess.Popen([self.build / 'apps/uroce', 'serve', '--config', folder / 'service.toml', '--socket', folder / 'socket'])
        wait_until(lambda: self.uroce('status', '--socket', folder / 'socket').returncode == 0, service)
        return service

    def dump(self, folder):
        """Which captures from the program's first frame on."""
        file = folder / 'capture.pcapng'
        dump = subprocess.Popen([self.build / 'apps/uroce-dump', '--socket', folder / 'socket', '--wait', '--direction', 'out', file],
                                stderr=subprocess.PIPE, text=True)
        wait_until(file.exists, dump)
        return dump

    def traffic(self, folder, load):
        environment = {'UROCE_SERVICE': str(folder / 'socket'), 'UROCE_CONFIG_TEXT': '[log]\ncounters = true\n'}
        done = self.uroce('perf', '--quiet', *TRAFFIC, *load, '--duration', SECONDS, '--json', folder / 'perf.json', env=environment)
        if done.returncode != 0:
            raise Failure(f'uroce perf: {done.stderr.strip()}')
        return json.loads((folder / 'perf.json').read_text()), int(re.search(r' tx_frames (\d+)', done.stderr)[1])

    @staticmethod
    def ended(dump):
        time.sleep(0.2)
        used = cpu_seconds(dump.pid)
        dump.send_signal(signal.SIGINT)
        _, said = dump.communicate(timeout=60)
        captured, lost = re.search(r'^uroce dump: (\d+) packets(?:, (\d+) lost)?', said, re.M).groups()
        return {'captured': int(captured), 'lost': int(lost or 0), 'dump_ns': 1e9 * used / max(1, int(captured))}

    def uroce(self, *words, **more):
        return subprocess.run([str(self.build / 'apps/uroce'), *map(str, words)], capture_output=True, text=True, **more)


def cpu_seconds(pid):
    words = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(words[11]) + int(words[12])) / 100


def wait_until(condition, process):
    for _ in range(500):
        if condition():
            return
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise Failure(f'{process.args[0]} does not get ready')
