#!/usr/bin/env python3
"""Runs programs in the guest for the host. Each connection is one program.

The host sends one line of JSON: {"command": [...], "environment": {...}, "ready": PORT, FILE or null}. The agent answers
with a line {"ready": true} when the program runs (listens on that TCP port, or has made that file, if it is to), and with
{"status": N, "output": "..."} when it has ended. When the host closes the connection, the program is killed.
"""

import json
import os
import select
import signal
import socketserver
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "programs"))
import programs

PORT = 4790


def is_ready(sign):
    if isinstance(sign, int):
        return programs.listens(sign)
    return sign is None or os.path.exists(sign)


class Run(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline()
        if not line:
            return  # a look whether we are up
        request = json.loads(line)
        if isinstance(request["ready"], str):
            Path(request["ready"]).unlink(missing_ok=True)  # from the last one
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(request["command"], env=os.environ | request["environment"],
                                           stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                           start_new_session=True)
            except OSError as error:
                return self.tell({"status": 127, "output": str(error)})
            try:
                self.wait_for(process, lambda: is_ready(request["ready"]))
                self.tell({"ready": True})
                self.wait_for(process, lambda: False)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            output.seek(0)
            self.tell({"status": process.returncode, "output": output.read().decode(errors="replace")})

    def wait_for(self, process, condition):
        """Until the condition holds or the program has ended or the host does not want it any more."""
        while not condition() and process.poll() is None:
            if select.select([self.connection], [], [], 0.02)[0]:
                raise ConnectionAbortedError

    def tell(self, message):
        self.wfile.write(json.dumps(message).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


if __name__ == "__main__":
    print(f"guest: up after {time.clock_gettime(time.CLOCK_BOOTTIME):.1f} s", flush=True)
    Server(("", PORT), Run).serve_forever()
