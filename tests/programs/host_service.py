"""A host service of a test's own, and two programs that share its device."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import programs

# Without configuration the service has the first of these.
ADDRESS, ADDRESS6 = "192.0.2.1", "2001:db8::1"
DEVICE = f'[[device]]\nname = "uroce0"\nport = "loopback0"\naddresses = ["{ADDRESS}/24", "{ADDRESS6}/64"]\n'
# Of programs: the devices are the service's when a configuration names none.
COUNTERS = "[log]\ncounters = true\n"


class Service:
    """`uroce-serve` as it lies beside the libraries; programs with `environment` find it. Without a configuration they start it
    themselves, and it goes with this object. `within` gives the command that runs a command where the service is to be, a network
    namespace for one. `errors` is the file that gets what it says."""

    def __init__(self, stack, configuration=DEVICE, within=lambda command: command, errors=None):
        self.within = within
        self.stack = stack
        self.configuration = configuration
        self.errors = errors
        self.program = stack.folder.parents[1] / "apps/uroce-serve"
        self.folder = Path(tempfile.mkdtemp(prefix="uroce-service-"))
        self.socket = self.folder / "run/service.sock"
        self.environment = {"UROCE_SERVICE": str(self.socket)}
        self.process = None
        if configuration is not None:
            self.folder.chmod(0o755)
            self.start()

    def start(self):
        file = self.folder / "serve.toml"
        file.write_text(self.configuration)
        reading, writing = os.pipe()
        self.process = subprocess.Popen(
            self.within(["setpriv", "--pdeathsig", "KILL", str(self.program), "--config", str(file), "--socket", str(self.socket),
                         "--ready-fd", str(writing)]),
            pass_fds=[writing], stdin=subprocess.DEVNULL, stderr=self.errors, env=self.stack.environment(""))
        os.close(writing)
        with open(reading, encoding="utf-8") as ready:
            said = ready.read()
        if said != "\n":
            self.process.wait()
            raise AssertionError(f"the service does not start: {said}")

    def kill(self):
        """As a crash would end it: programs live on."""
        self.process.kill()
        self.process.wait()

    def reload(self, uroce, configuration):
        """What `uroce reload` complains of, or an empty string."""
        (self.folder / "serve.toml").write_text(configuration)
        done = subprocess.run([uroce, "reload", "--socket", str(self.socket)], capture_output=True, text=True,
                              timeout=2 * programs.TIME_LIMIT_SECONDS)
        assert (done.returncode != 0) == (done.stderr != ""), done
        return done.stderr

    def close(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(programs.TIME_LIMIT_SECONDS)
        shutil.rmtree(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def status(self, uroce):
        done = subprocess.run([uroce, "status", "--json", "--socket", str(self.socket)], capture_output=True, text=True, check=True,
                              timeout=programs.TIME_LIMIT_SECONDS)
        return json.loads(done.stdout)


class HostPair(programs.Pair):
    """Two programs of one service: the same device at both ends."""

    def __init__(self, stack, service):
        super().__init__(stack)
        self.service = service

    def configuration(self, role):
        return ""

    def start(self, role, command):
        process = self.stack.start(command, self.more_configuration, self.service.environment)
        self.processes.append(process)
        return process
