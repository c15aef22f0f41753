#!/usr/bin/env python3
"""`uroce perf` from outside: its figures, within one process and between two, and how it ends.

    tests/programs/uroce_perf_test.py UROCE
"""
import json
import pathlib
import signal
import socket
import subprocess
import sys
import time
import unittest

import host_service
import programs
from command_line import ENVIRONMENT, UROCE, TestCase, uroce

PROFILE = str(pathlib.Path(__file__).resolve().parents[2] / 'configs/profiles/mixed.toml')


class Perf(TestCase):
    def perf(self, *arguments, iterations=50):
        json_path, plot_path = self.folder / 'out.json', self.folder / 'out.svg'
        run = uroce('perf', '--iterations', str(iterations), '--json', str(json_path), '--plot', str(plot_path), *arguments)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr, '')
        self.assertTrue(plot_path.read_text().startswith('<svg'))
        return run, json.loads(json_path.read_text())

    def test_embedded_pair(self):
        run, figures = self.perf('--size', '1,4096,100000')
        for operation in 'write', 'read', 'send':
            for size in 1, 4096, 100000:
                self.assertEqual(figures[f'{operation}.{size}.messages'], 50)
                self.assertEqual(figures[f'{operation}.{size}.round_trips'], 50)
                self.assertGreater(figures[f'{operation}.{size}.ping_interval_p50_us'], 0)
                self.assertGreaterEqual(figures[f'{operation}.{size}.bytes_verified'], size)
                self.assertGreater(figures[f'{operation}.{size}.gigabits_per_second'], 0)
        self.assertEqual((figures['device'], figures['peer']), ('uroce0', 'uroce1'))
        self.assertIn('verified', run.stdout)

    def test_unreliable_services(self):
        for service, operations, sizes in ('uc', ['write', 'send'], [1, 4096, 100000]), ('ud', ['send'], [1, 1000, 4096]):
            _, figures = self.perf('--service', service, '--size', ','.join(map(str, sizes)))
            self.assertEqual(figures['service'], service.upper())
            for operation in operations:
                for size in sizes:
                    of = f'{operation}.{size}.'
                    self.assertEqual(figures[of + 'messages'], 50)
                    self.assertEqual(figures[of + 'received'] + figures[of + 'lost'], 50)
                    self.assertEqual(figures[of + 'round_trips'] + figures[of + 'round_trips_lost'], 50)
                    # Between two ends of one process, turned by one thread, nothing is lost.
                    self.assertEqual((figures[of + 'lost'], figures[of + 'round_trips_lost']), (0, 0))
                    self.assertGreaterEqual(figures[of + 'bytes_verified'], size)

    def test_atomics(self):
        _, figures = self.perf('--op', 'add,swap')
        for operation in 'add', 'swap':
            self.assertEqual((figures[operation + '.8.messages'], figures[operation + '.8.round_trips']), (50, 50))

    def test_one_device_with_itself(self):
        _, figures = self.perf('--size', '64', '--device', 'uroce1', '--peer-device', 'uroce1', '--path-mtu', '256',
                               '--ack-timeout', '18')
        self.assertEqual((figures['peer'], figures['path_mtu']), ('uroce1', 256))

    def test_messages_that_share_places(self):
        """As those of perftest, which has one; each operation is verified."""
        for slots in 1, 3:
            _, figures = self.perf('--op', 'write,read,send,add,swap', '--size', '64,70000', '--slots', str(slots))
            self.assertEqual(figures['slots'], slots)
            # The last message of each place, and no more than that.
            self.assertEqual(figures['write.70000.bytes_verified'] % 70000, 0)
            self.assertGreater(figures['write.70000.bytes_verified'], 0)

    def test_receives_by_the_list(self):
        """More messages than there are receives at first, and a number that no list divides."""
        for length in 1, 5, 16:
            _, figures = self.perf('--op', 'send', '--size', '64', '--depth', '8', '--receive-list', str(length), iterations=1003)
            self.assertEqual(figures['receive_list'], length)
            self.assertEqual((figures['send.64.messages'], figures['send.64.round_trips']), (1003, 1003))

    def load(self, *arguments, duration='0.2'):
        path = self.folder / 'load.json'
        run = uroce('perf', '--quiet', '--duration', duration, '--json', str(path), *arguments)
        self.assertEqual((run.returncode, run.stderr), (0, ''))
        return run, json.loads(path.read_text())

    def test_loads(self):
        """Many queue pairs, threads, both directions; each end verifies what came."""
        _, figures = self.load('--op', 'write,read,send,add,swap', '--size', '64,5000', '--queue-pairs', '8', '--threads', '2',
                               '--bidirectional', '--depth', '8', duration='0.05')
        for kind in 'write.64', 'write.5000', 'read.64', 'read.5000', 'send.64', 'send.5000', 'add.8', 'swap.8':
            for way in 'there', 'back':
                self.assertGreater(figures[f'{kind}.{way}.messages'], 0)
                self.assertGreater(figures[f'{kind}.{way}.latency_p50_us'], 0)
                if not kind.startswith(('add', 'swap')):
                    self.assertGreater(figures[f'{kind}.{way}.bytes_verified'], 0)
        for service, operation in ('uc', 'write'), ('uc', 'send'), ('ud', 'send'):
            _, figures = self.load('--service', service, '--op', operation, '--size', '64', '--rate', '5k', '--queue-pairs', '4')
            of = f'{operation}.64.there.'
            self.assertEqual((figures[of + 'offered_per_second'], figures[of + 'lost']), (5000, 0))
            self.assertGreater(figures[of + 'messages'], 0)

    def test_a_profile_and_a_rate(self):
        _, figures = self.load('--profile', PROFILE, '--rate', '4k', '--arrivals', 'even', '--warm-up', '0.05', duration='0.5')
        self.assertEqual(figures['mix.there.offered_per_second'], 4000)
        parts = [key for key in figures if key.startswith('mix.') and key.endswith('.there.messages')]
        self.assertEqual(len(parts), 6, parts)
        self.assertEqual(sum(figures[key] for key in parts), 2 * figures['mix.there.messages'])
        self.assertEqual(figures['mix.back.offered_per_second'], 4000)

    def test_a_ramp(self):
        run, figures = self.load('--op', 'write', '--size', '64', '--ramp', '--rate', '1000')
        self.assertGreater(len(figures['ramps']['write.64']), 0)
        self.assertEqual(figures['ramps']['write.64'][0]['offered_per_second'], 1000)
        self.assertLessEqual(figures['write.64.highest_per_second'], 1000)
        self.assertIn('highest rate', run.stdout)

    def test_wrong_loads_are_named(self):
        self.refused('perf', '--rate', 'fast', naming=['--rate', "'fast'"])
        self.refused('perf', '--rate', '0', naming=['--rate'])
        self.refused('perf', '--arrivals', 'poisson', naming=['--arrivals', '--rate'])
        self.refused('perf', '--iterations', '5', '--threads', '2', naming=['--iterations'])
        self.refused('perf', '--queue-pairs', '3', '--threads', '2', status=1, naming=['--queue-pairs 3', '2'])
        self.refused('perf', '--queue-pairs', '0', naming=['--queue-pairs'])
        self.refused('perf', '--profile', '/nonexistent.toml', naming=['--profile', '/nonexistent.toml'])
        self.refused('perf', '--profile', self.file('x.toml', 'speed = 1\n'), naming=['--profile', 'x.toml:1: speed'])
        self.refused('perf', '--profile', PROFILE, '--service', 'ud', naming=['UD', 'read'])
        self.refused('perf', '--profile', PROFILE, '--size', '64', naming=['--profile'])

    def test_what_is_wrong_is_named(self):
        self.refused('perf', '--device', 'mlx5_0', status=1, naming=['mlx5_0', 'uroce0'])
        self.refused('perf', '--gid-index', '77', status=1, naming=['--gid-index 77'])
        self.refused('perf', '--service', 'ud', '--size', '4K', '--path-mtu', '1024', '--iterations', '1', status=1,
                     naming=['--size 4096', 'UD', '1024'])
        self.refused('perf', '--connect', '127.0.0.1:1', status=1, naming=['127.0.0.1:1'])
        self.refused('perf', '--json', '/nonexistent/x.json', '--iterations', '1', status=2, naming=['--json', '/nonexistent'])


    def test_interruption_ends_it_cleanly(self):
        with subprocess.Popen([UROCE, 'perf', '--duration', '600'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=ENVIRONMENT) as process:
            time.sleep(2)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out, errors), (128 + signal.SIGINT, '', 'uroce perf: interrupted\n'))


class PerfBetweenProcesses(TestCase):
    """Server and client over memif, each a process of its own."""

    def options(self, role, number, peer):
        return ['--port', f'net_memif0,role={role},id=0,socket={self.folder}/memif.sock,socket-abstract=no,bsize=8192',
                '--ip', f'192.0.2.{number}/24', '--mac', f'02:00:00:00:02:0{number}',
                '--neighbour', f'192.0.2.{peer}=02:00:00:00:02:0{peer}']

    def start_server(self):
        server = subprocess.Popen([UROCE, 'perf', '--server', '--listen', '0', *self.options('server', 1, 2)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        return server, server.stdout.readline().split()[-1]

    def start_client(self, port, *options):
        client = subprocess.Popen([UROCE, 'perf', '--connect', f'127.0.0.1:{port}', *options, *self.options('client', 2, 1)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        return client

    def test_all_operations(self):
        server, port = self.start_server()
        path = self.folder / 'rounds.json'
        client = self.start_client(port, '--iterations', '20', '--size', '1,5000', '--json', str(path))
        out, errors = client.communicate(timeout=120)
        self.assertEqual((client.returncode, errors), (0, ''))
        self.assertEqual(len([line for line in out.splitlines() if line.startswith(('write', 'read', 'send'))]), 6)
        served, errors = server.communicate(timeout=60)
        self.assertEqual((server.returncode, errors), (0, ''))
        self.assertIn('served', served)
        figures = json.loads(path.read_text())
        for operation in 'write', 'read', 'send':
            for what in 'message', 'round_trip':
                of_server, of_both = (figures[f'{operation}.5000.{name}_per_{what}'] for name in ('peer_cpu_ns', 'cpu_ns'))
                self.assertGreater(of_server, 0)
                self.assertGreater(of_both, of_server)
        path.unlink()
        self.assertEqual(list(self.folder.iterdir()), [], 'the socket was left behind')

    def test_unreliable_services(self):
        for service in 'uc', 'ud':
            server, port = self.start_server()
            path = self.folder / f'{service}.json'
            client = self.start_client(port, '--iterations', '200', '--size', '1,4000', '--service', service, '--json', str(path))
            _, errors = client.communicate(timeout=120)
            self.assertEqual((client.returncode, errors), (0, ''))
            figures = json.loads(path.read_text())
            for size in 1, 4000:
                self.assertEqual(figures[f'send.{size}.received'] + figures[f'send.{size}.lost'], 200)
                self.assertGreater(figures[f'send.{size}.received'], 0)
            served, errors = server.communicate(timeout=60)
            self.assertEqual((server.returncode, errors), (0, ''))

    def test_loads(self):
        """Both ends send, by more queue pairs than one message names; the server stays for the second load."""
        server, port = self.start_server()
        path = self.folder / 'load.json'
        client = self.start_client(port, '--op', 'write,send', '--size', '64', '--queue-pairs', '130', '--depth', '4', '--bidirectional',
                                   '--duration', '0.2', '--json', str(path))
        _, errors = client.communicate(timeout=120)
        self.assertEqual((client.returncode, errors), (0, ''))
        figures = json.loads(path.read_text())
        for operation in 'write', 'send':
            for way in 'there', 'back':
                self.assertGreater(figures[f'{operation}.64.{way}.messages'], 0)
                self.assertGreater(figures[f'{operation}.64.{way}.bytes_verified'], 0)
        self.assertGreater(figures['send.64.there.cpu_ns_per_message'], 0)
        served, errors = server.communicate(timeout=60)
        self.assertEqual((server.returncode, errors), (0, ''))
        self.assertIn('served', served)

    def test_a_dead_server_ends_a_load(self):
        server, port = self.start_server()
        client = self.start_client(port, '--op', 'write', '--size', '64', '--queue-pairs', '2', '--duration', '600')
        time.sleep(2)
        self.assertIsNone(client.poll())
        server.kill()
        _, errors = client.communicate(timeout=60)
        self.assertEqual((client.returncode, len(errors.splitlines())), (1, 1), errors)

    def running(self):
        server, port = self.start_server()
        client = self.start_client(port, '--duration', '600', '--size', '4096')
        time.sleep(2)
        self.assertIsNone(client.poll())
        return server, client

    def test_a_dead_server_ends_the_client(self):
        server, client = self.running()
        server.kill()
        _, errors = client.communicate(timeout=60)
        self.assertEqual(client.returncode, 1)
        self.assertEqual(len(errors.splitlines()), 1, errors)

    def test_a_dead_client_ends_the_server(self):
        server, client = self.running()
        client.kill()
        _, errors = server.communicate(timeout=60)
        self.assertEqual(server.returncode, 1)
        self.assertEqual(len(errors.splitlines()), 1, errors)

    def test_interrupting_the_client_ends_both(self):
        server, client = self.running()
        client.send_signal(signal.SIGINT)
        _, errors = client.communicate(timeout=60)
        self.assertEqual((client.returncode, errors), (128 + signal.SIGINT, 'uroce perf: interrupted\n'))
        server.communicate(timeout=60)
        self.assertEqual(server.returncode, 1)

    def test_strangers_are_refused_and_clients_served(self):
        server, port = self.start_server()
        address = ('127.0.0.1', int(port))
        # A port scanner; a browser; control sequences for a terminal; a stack of brackets; a line without an end; a
        # connection that never says anything.
        socket.create_connection(address).close()
        said = [b'GET / HTTP/1.0\r\n\r\n', b'{"error": "\\u001b[2J\\u009b31m\x1b]0;owned\x07"}\n', b'{"error": "\\u001b[2J"}\n',
                b'{"plan":' + b'[' * 30000 + b']' * 30000 + b'}\n', b'x' * 70000, b'']
        strangers = [socket.create_connection(address) for _ in said]
        for stranger, words in zip(strangers, said):
            self.addCleanup(stranger.close)
            try:
                stranger.sendall(words)
            except ConnectionError:
                pass  # it was let go before its end
        client = self.start_client(port, '--iterations', '20', '--size', '64')
        _, errors = client.communicate(timeout=120)
        self.assertEqual((client.returncode, errors), (0, ''))
        served, errors = server.communicate(timeout=60)
        self.assertEqual(server.returncode, 0)
        self.assertIn('served', served)
        self.assertGreaterEqual(len(errors.splitlines()), 5, errors)
        self.assertRegex(errors, r'^[ -~\n]*$')
        self.assertIn('\\x1b[2J', errors)


class PerfOfSeveralServers(TestCase):
    """Programs of one service."""

    def setUp(self):
        super().setUp()
        self.service = self.enterContext(host_service.Service(programs.Stack(pathlib.Path(UROCE).parents[1] / 'lib/verbs', '')))
        self.environment = ENVIRONMENT | self.service.environment

    def start(self, *arguments):
        process = subprocess.Popen([UROCE, 'perf', *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def start_server(self):
        server = self.start('--server', '--listen', '0')
        return server, f'127.0.0.1:{server.stdout.readline().split()[-1]}'

    def client(self, places, *arguments):
        return uroce('perf', '--connect', ','.join(places), '--quiet', *arguments, env=self.service.environment)

    def test_a_load_is_divided_among_them(self):
        servers, places = zip(*[self.start_server() for _ in range(3)])
        path = self.folder / 'load.json'
        client = self.client(places, '--op', 'send', '--size', '64', '--queue-pairs', '6', '--bidirectional', '--duration', '0.3', '--json', str(path))
        self.assertEqual((client.returncode, client.stderr), (0, ''))
        figures = json.loads(path.read_text())
        for way in 'there', 'back':
            self.assertGreater(figures[f'send.64.{way}.messages'], 0)
            self.assertGreater(figures[f'send.64.{way}.bytes_verified'], 0)
        for server in servers:
            served, errors = server.communicate(timeout=60)
            self.assertEqual((server.returncode, errors), (0, ''))
            self.assertRegex(served, r'served [^\n]*: [1-9][0-9]* bytes verified at this end')

    def test_one_that_is_not_there_ends_all(self):
        server, place = self.start_server()
        client = self.client([place, '127.0.0.1:1'], '--queue-pairs', '2', '--duration', '0.1')
        self.assertEqual((client.returncode, len(client.stderr.splitlines())), (1, 1), client.stderr)
        self.assertIn('127.0.0.1:1', client.stderr)
        _, errors = server.communicate(timeout=60)
        self.assertEqual((server.returncode, len(errors.splitlines())), (1, 1), errors)

    def test_one_that_dies_ends_all(self):
        (first, one), (second, other) = self.start_server(), self.start_server()
        client = self.start('--connect', f'{one},{other}', '--quiet', '--op', 'write', '--size', '64', '--queue-pairs', '2', '--duration', '600')
        time.sleep(2)
        self.assertIsNone(client.poll())
        second.kill()
        _, errors = client.communicate(timeout=60)
        self.assertEqual((client.returncode, len(errors.splitlines())), (1, 1), errors)
        _, errors = first.communicate(timeout=60)
        self.assertEqual((first.returncode, len(errors.splitlines())), (1, 1), errors)

    def test_several_are_for_a_load_alone(self):
        self.refused('perf', '--connect', '127.0.0.1:1,127.0.0.1:2', '--iterations', '1', status=1, naming=['--connect', 'several servers'])
        _, places = zip(*[self.start_server() for _ in range(2)])
        client = self.client(places, '--queue-pairs', '3')
        self.assertEqual(client.returncode, 1)
        self.assertIn('--queue-pairs 3: they are divided among 1 threads and 2 peers', client.stderr)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
