#!/usr/bin/env python3
"""`uroce serve`, `status` and `reload` from outside: the life of a service, what it says, and what it leaves behind.

    tests/programs/serve_test.py UROCE LIBRARY_FOLDER VERBS_PMD SANITIZER_RUNTIME
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

UROCE = os.path.abspath(sys.argv[1])
LIBRARIES = pathlib.Path(sys.argv[2]).resolve()
VERBS_PMD = os.path.abspath(sys.argv[3])
SANITIZER_RUNTIME = sys.argv[4]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith('UROCE_')}

DEVICE = '[[device]]\nname = "uroce0"\nport = "loopback0"\naddresses = ["192.0.2.1/24"]\n'
MORE = '[[device]]\nname = "more"\nport = "loopback2"\naddresses = ["192.0.2.2/24"]\n'


def uroce(*arguments, **more):
    return subprocess.run([UROCE, *arguments], capture_output=True, text=True, timeout=60, env=dict(ENVIRONMENT, **more))


class TestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.socket = self.folder / 'own' / 'service.sock'

    def file(self, text):
        path = self.folder / 'serve.toml'
        path.write_text(text)
        return str(path)

    def start(self, *arguments, **more):
        """A service, and the line that it says when it is ready or is not."""
        reading, writing = os.pipe()
        service = subprocess.Popen([UROCE, 'serve', '--socket', str(self.socket), '--ready-fd', str(writing), *arguments],
                                   pass_fds=[writing], stderr=subprocess.PIPE, text=True, env=dict(ENVIRONMENT, **more))
        os.close(writing)
        self.addCleanup(service.stderr.close)
        self.addCleanup(service.wait)
        self.addCleanup(service.kill)
        with open(reading) as ready:
            return service, ready.read()

    def serve(self, *arguments, **more):
        service, said = self.start(*arguments, **more)
        self.assertEqual(said, '\n')
        return service

    def refused(self, *arguments, status, naming):
        service, said = self.start(*arguments)
        errors = service.stderr.read()
        self.assertEqual(service.wait(), status, errors)
        self.assertEqual(errors, 'uroce serve: ' + said)
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn(naming, said)

    def status(self):
        done = uroce('status', '--json', '--socket', str(self.socket))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)


class Life(TestCase):
    def test_sigterm_ends_it_and_nothing_is_left(self):
        for end in signal.SIGTERM, signal.SIGINT:
            service = self.serve()
            self.assertEqual(self.socket.stat().st_mode & 0o777, 0o600)
            service.send_signal(end)
            self.assertEqual(service.wait(60), 0)
            self.assertEqual(service.stderr.read(), '')
            self.assertEqual(list(self.socket.parent.iterdir()), [])

    def test_it_ends_when_no_program_uses_it(self):
        service = self.serve('--idle-exit', '1')
        self.assertEqual(service.wait(60), 0)
        self.assertFalse(self.socket.exists())

    def test_one_service_serves_a_path(self):
        service = self.serve()
        self.refused(status=1, naming=f'another service listens there (process {service.pid})')
        self.assertEqual(self.status()['pid'], service.pid)

    def test_a_killed_one_is_replaced(self):
        service = self.serve()
        service.kill()
        service.wait()
        self.assertTrue(self.socket.exists())
        service = self.serve()
        self.assertEqual(self.status()['pid'], service.pid)

    def test_the_environment_of_programs_is_not_its_own(self):
        port = f'host,socket={self.socket},device=uroce0'
        service = subprocess.Popen([UROCE, 'serve', '--socket', str(self.socket), '--idle-exit', '0'], stderr=subprocess.PIPE,
                                   text=True, env=dict(ENVIRONMENT, UROCE_CONFIG_TEXT=f'[[device]]\nport = "{port}"\n'))
        self.assertEqual(service.communicate(timeout=60)[1], '')
        self.assertEqual(service.returncode, 0)

    def test_systemd_hands_over_a_socket(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            path = str(self.folder / 'activated.sock')
            listening.bind(path)
            listening.listen()
            launch = ('import os,sys; os.dup2(int(sys.argv[1]), 3, inheritable=True); '
                      'os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1"); os.execv(sys.argv[2], sys.argv[2:])')
            service = subprocess.Popen([sys.executable, '-c', launch, str(listening.fileno()), UROCE, 'serve'],
                                       pass_fds=[listening.fileno()], env=ENVIRONMENT)
            self.addCleanup(service.wait)
            self.addCleanup(service.kill)
            done = uroce('status', '--json', '--socket', path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)['socket'], path)
            service.terminate()
            self.assertEqual(service.wait(60), 0)
            self.assertTrue(os.path.exists(path))


class Libraries(TestCase):
    """Drivers of DPDK that need libibverbs.so.1 get the system's, whatever the program has that starts the service."""

    # With EAL, which loads all of DPDK's drivers.
    OPTIONS = ('--port', 'net_null0', '--ip', '192.0.2.9/24', f'--eal-arguments=-d,{VERBS_PMD}')
    FACES = 'libibverbs.so.1', 'librdmacm.so.1', 'liburocedv.so.1', 'liburoce.so.0'

    def mapped(self, pid):
        words = (line.split(maxsplit=5) for line in pathlib.Path(f'/proc/{pid}/maps').read_text().splitlines())
        return {pathlib.Path(words[5]) for words in words if len(words) == 6 and words[5].startswith('/')}

    def check(self, pid):
        files = self.mapped(pid)
        self.assertEqual([file for file in files if file.parent == LIBRARIES], [])
        self.assertIn(pathlib.Path(VERBS_PMD), files)
        *devices, library = (self.folder / 'report').read_text().splitlines()
        self.assertIn(pathlib.Path(library).resolve(), files)
        self.assertNotIn('device uroce0', devices)

    def environment(self, **more):
        return dict(more, VERBS_PMD_REPORT=str(self.folder / 'report'))

    def test_of_a_plain_service(self):
        self.check(self.serve(*self.OPTIONS, **self.environment(LD_LIBRARY_PATH='')).pid)

    def test_of_a_service_among_our_libraries(self):
        for name in self.FACES:
            self.assertTrue((LIBRARIES / name).exists(), name)
        # A sanitizer's runtime wants to be the first.
        preloaded = f'{SANITIZER_RUNTIME} {LIBRARIES}/libibverbs.so.1'.strip()
        for environment in ({'LD_LIBRARY_PATH': f'{LIBRARIES}:/elsewhere'},
                            {'LD_PRELOAD': preloaded, 'LD_LIBRARY_PATH': str(LIBRARIES)}):
            service = self.serve(*self.OPTIONS, **self.environment(**environment))
            self.check(service.pid)
            self.assertEqual(pathlib.Path(f'/proc/{service.pid}/comm').read_text(), 'uroce-serve\n')
            service.terminate()
            self.assertEqual(service.wait(60), 0)

    def test_of_a_service_that_a_program_starts(self):
        done = uroce('info', UROCE_SERVICE=str(self.socket), LD_LIBRARY_PATH=str(LIBRARIES))
        self.assertEqual(done.returncode, 0, done.stderr)
        pid = self.status()['pid']
        self.addCleanup(os.kill, pid, signal.SIGTERM)
        self.assertEqual([file for file in self.mapped(pid) if file.parent == LIBRARIES], [])
        self.assertNotIn(str(LIBRARIES), pathlib.Path(f'/proc/{pid}/environ').read_text())


class Configuration(TestCase):
    def test_the_file_says_devices_and_quotas(self):
        path = self.file('[[device]]\nname = "other"\nport = "loopback0"\naddresses = ["192.0.2.7/24", "2001:db8::7/64"]\n'
                         '[service]\nmode = "0666"\nprograms = 3\n')
        self.serve('--config', path)
        device, = self.status()['devices']
        self.assertEqual(device['name'], 'other')
        self.assertEqual(device['addresses'], ['192.0.2.7/24', '2001:db8::7/64'])
        self.assertEqual(self.socket.stat().st_mode & 0o777, 0o666)

    def test_a_file_without_devices_has_the_local_one(self):
        self.serve('--config', self.file('[service]\nprograms = 3\n'))
        device, = self.status()['devices']
        self.assertEqual((device['name'], device['addresses']), ('uroce0', ['192.0.2.1/24']))

    def test_mistakes_are_one_line(self):
        self.refused('--config', self.file('[service]\nprogram = 3\n'), status=2, naming='serve.toml:2: service.program: unknown key')
        self.refused('--config', str(self.folder / 'none.toml'), status=2, naming='none.toml')
        self.refused('--no-such-option', status=2, naming='--no-such-option')
        self.refused('--interface', 'none0', status=1, naming='interface none0')
        self.assertFalse(self.socket.exists())

    def test_it_is_read_again(self):
        path = self.file('[service]\nprograms = 3\n')
        service = self.serve('--config', path)
        self.assertEqual(uroce('reload', '--socket', str(self.socket)).returncode, 0)
        self.file('[service]\nprograms = "many"\n')
        done = uroce('reload', '--socket', str(self.socket))
        self.assertEqual(done.returncode, 1)
        self.assertIn('serve.toml:2: service.programs: must be an integer', done.stderr)
        service.send_signal(signal.SIGHUP)
        self.assertIn('serve.toml:2: service.programs: must be an integer', service.stderr.readline())
        self.assertEqual(self.status()['programs'], 0)

    def test_devices_come_and_go(self):
        path = self.file(DEVICE)
        service = self.serve('--config', path)
        self.file(DEVICE + MORE)
        done = uroce('reload', '--socket', str(self.socket))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, '', ''))
        self.assertEqual([device['name'] for device in self.status()['devices']], ['uroce0', 'more'])
        self.file(MORE)
        service.send_signal(signal.SIGHUP)
        while [device['name'] for device in self.status()['devices']] != ['more']:
            self.assertIsNone(service.poll())
        # A file without devices has the local one.
        self.file('')
        self.assertEqual(uroce('reload', '--socket', str(self.socket)).returncode, 0)
        self.assertEqual([device['addresses'] for device in self.status()['devices']], [['192.0.2.1/24']])

    def devices(self):
        """What the service says of them, without what goes on counting."""
        return [{key: value for key, value in device.items() if key != 'counters'} for device in self.status()['devices']]

    def test_a_mistake_changes_nothing(self):
        service = self.serve('--config', self.file(DEVICE + '[service]\nprograms = 3\n'))
        before = self.devices()
        for text, naming in ((MORE + 'mut = 1\n', 'serve.toml:9: device.mut: unknown key'),
                             (MORE + '[service]\nprogram = 1\n', 'serve.toml:10: service.program: unknown key'),
                             (MORE + MORE, 'two devices called more'),
                             (MORE.replace('.0.2.2', '.0.2.1'), 'more: address 192.0.2.1 is uroce0\'s already'),
                             (MORE.replace('loopback2', 'net_af_packet0,iface=none0'), 'none0'),
                             (MORE.replace('loopback2', 'no_driver0'), 'no_driver0')):
            self.file(DEVICE + text)
            done = uroce('reload', '--socket', str(self.socket))
            self.assertEqual((done.returncode, done.stdout), (1, ''))
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(naming, done.stderr)
            service.send_signal(signal.SIGHUP)
            self.assertEqual(service.stderr.readline(), done.stderr.replace(f'uroce reload: {self.socket}', 'uroce serve'))
            self.assertEqual(self.devices(), before)


class Status(TestCase):
    def test_a_table_for_people(self):
        service = self.serve()
        done = uroce('status', UROCE_SERVICE=str(self.socket))
        self.assertEqual(done.returncode, 0, done.stderr)
        first, device = done.stdout.splitlines()
        self.assertIn(f'process {service.pid}', first)
        self.assertIn('uroce0: loopback0', device)

    def test_no_service_is_one_line(self):
        for command in 'status', 'reload':
            done = uroce(command, '--socket', str(self.socket))
            self.assertEqual((done.returncode, done.stdout), (1, ''))
            self.assertEqual(done.stderr, f'uroce {command}: {self.socket}: no service listens there\n')


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
