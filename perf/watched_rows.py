"""Rows of what it costs to be looked at by `uroce exporter` and `uroce stat`, for perf/run."""

import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import urllib.request

from rows import SMALL, Failure, Row

# In turns, and the median counts.
ROUNDS = 5
SECONDS = 4
EVERY_S = 1
OPERATIONS = 'send', 'write'


class Watcher:
    """A scrape and a look each second, by programs of their own, as long as this is open."""

    def __init__(self, uroce):
        self.uroce, self.scrapes, self.looks = uroce, 0, 0

    def __enter__(self):
        self.stopping = threading.Event()
        self.exporter = subprocess.Popen([self.uroce, 'exporter', '--listen', '127.0.0.1:0'], stdout=subprocess.PIPE, text=True)
        port = re.search(r'at port (\d+)', self.exporter.stdout.readline())[1]
        self.threads = [threading.Thread(target=self.scrape, args=(f'http://127.0.0.1:{port}/metrics',)), threading.Thread(target=self.look)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.exporter.terminate()
        for thread in self.threads:
            thread.join()
        self.exporter.wait()
        self.exporter.stdout.close()

    def scrape(self, url):
        while not self.stopping.wait(EVERY_S):
            with contextlib.suppress(OSError):
                self.scrapes += 'process_executable_name="one_thread"' in urllib.request.urlopen(url, timeout=10).read().decode()

    def look(self):
        while not self.stopping.is_set():
            # It ends when there is nothing to look at, as before the measured program is there.
            with subprocess.Popen([self.uroce, 'stat', '--qps', '--regions', '--json', '--watch', str(EVERY_S)], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True) as stat:
                for line in stat.stdout:
                    self.looks += '"one_thread"' in line
                    if self.stopping.is_set():
                        stat.kill()


class Watched:
    def __init__(self, wire, build):
        self.wire, self.uroce = wire, build / 'apps/uroce'

    def rows(self):
        if len(os.sched_getaffinity(0)) < 2:
            return print('perf/run: watched: SKIPPED, there is one CPU', file=sys.stderr)
        for operation in OPERATIONS:
            rounds = [(self.figures(operation), self.watched_figures(operation)) for _ in range(ROUNDS)]
            for key, name, unit, better in (('cpu_ns_per_operation', 'cpu_ns', 'ns', 'lower'), ('operations_per_second', 'rate', '/s', 'higher')):
                alone, watched = ([figures[i][key] for figures in rounds] for i in (0, 1))
                yield Row(f'watched.{operation}.{SMALL}.{name}', statistics.median(watched), unit, statistics.median(alone), 'unwatched', better)
                lost = statistics.median(seen / own if better == 'lower' else own / seen for own, seen in zip(alone, watched))
                yield Row(f'watched.{operation}.{SMALL}.{name}.cost_percent', 100 * (lost - 1), '%')

    def figures(self, operation):
        """Of both ends on one thread: the CPU time is all of the process's, with that of the thread that answers those that look."""
        said = self.wire.run('net_ring', [self.wire.program('one_thread'), '--op', operation, '--size', SMALL, '--seconds', SECONDS,
                                          '--region-mb', 4])
        return json.loads(said)

    def watched_figures(self, operation):
        with Watcher(self.uroce) as watcher:
            figures = self.figures(operation)
        if watcher.scrapes < 2 or watcher.looks < 2:
            raise Failure(f'{watcher.scrapes} scrapes and {watcher.looks} looks in {SECONDS} s: nothing was watched')
        return figures
