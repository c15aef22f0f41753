#!/usr/bin/env python3
"""The program uroce from outside: what it answers to bad input, and what becomes of a program that it runs.

    tests/programs/uroce_cli_test.py UROCE
"""
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

from command_line import EMBEDDED, ENVIRONMENT, UROCE, TestCase, uroce


class Help(TestCase):
    def test_every_command_explains_itself_with_examples(self):
        self.assertIn('run', uroce('--help').stdout)
        for command in 'run', 'perf', 'info':
            run = uroce(command, '--help')
            self.assertEqual(run.returncode, 0)
            self.assertIn('Examples:', run.stdout)
            self.assertIn('--config', run.stdout)

    def test_no_line_is_wider_than_a_terminal(self):
        overview = uroce('--help').stdout
        commands = [[name] for name in re.findall(r'(?m)^  ([a-z]+) ', overview.split('Subcommands:')[1])]
        self.assertGreater(len(commands), 10)
        for command in [[], *commands]:
            for option in '--help', '--help-all':
                said = uroce(*command, option)
                if said.returncode == 2 and option == '--help-all':
                    continue
                self.assertEqual((said.returncode, said.stderr), (0, ''))
                self.assertEqual([line for line in said.stdout.splitlines() if len(line) > 80], [], command)
                below = re.search(r'(?s)Subcommands:\n(.*?)\n\n', said.stdout)
                if below and len(command) == 1:
                    commands += [[*command, name] for name in re.findall(r'(?m)^  ([a-z]+) ', below[1]) if [*command, name] not in commands]
        self.assertIn(['fault', 'add'], commands)

    def test_what_a_command_does_comes_first_and_the_configuration_last(self):
        said = uroce('perf', '--help').stdout
        self.assertTrue(said.startswith('Benchmark '))
        order = [said.index(what) for what in ('Usage:', 'What is measured:', 'Where, and what', 'Devices and configuration', 'Examples:')]
        self.assertEqual(order, sorted(order))
        self.assertNotIn('--poller-idle', said)
        self.assertIn('--poller-idle', uroce('perf', '--help-all').stdout)

    def test_version(self):
        self.assertRegex(uroce('--version').stdout, r'^uroce \d+\.\d+\.\d+\n$')


class BadOptions(TestCase):
    def test_unknown_things_are_named(self):
        self.refused('walk', naming=["'walk'"])
        self.refused('perf', '--sizes', '3', naming=['--sizes'])
        self.refused('run', '--bogus', '--', 'true', naming=['--bogus'])
        self.refused(naming=['subcommand'])

    def test_what_may_be_meant_is_named(self):
        for words, meant in ((['prf'], 'perf'), (['perf', '--sizes', '3'], '--size'), (['run', '--confg', 'x', 'true'], '--config'),
                             (['fault', 'lst'], 'list'), (['fault', 'add', '--dely=1ms'], '--delay'), (['serve', '--detatch'], '--detach'),
                             (['dump', '--snaplne', '0'], '--snaplen'), (['mem', 'gte'], 'get')):
            self.refused(*words, naming=[f'did you mean {meant}?'])
        unknown = self.file('unknown.toml', '[poller]\nmdoe = "inline"\n')
        self.refused('run', '--config', unknown, 'true', naming=[unknown + ':2', 'did you mean mode?'])
        self.refused('run', '--config', self.file('table.toml', '[pollers]\n'), 'true', naming=['did you mean poller?'])

    def test_values_out_of_range(self):
        self.refused('perf', '--size', '0', naming=['--size'])
        self.refused('perf', '--size', '9M', naming=['--size', '9M'])
        self.refused('perf', '--op', 'erase', naming=['--op', "'erase'"])
        self.refused('perf', '--depth', '0', naming=['--depth'])
        self.refused('perf', '--path-mtu', '1500', naming=['--path-mtu'])
        self.refused('perf', '--ack-timeout', '32', naming=['--ack-timeout'])
        self.refused('perf', '--service', 'rd', naming=['--service', "'rd'"])
        self.refused('perf', '--service', 'ud', '--op', 'send,write', naming=['--op', 'UD', "'write'"])
        self.refused('perf', '--service', 'uc', '--op', 'read', naming=['--op', 'UC', "'read'"])
        self.refused('perf', '--service', 'uc', '--op', 'add', naming=['--op', 'UC', "'add'"])
        self.refused('perf', '--service', 'ud', '--size', '8K', naming=['--size', 'UD', '8 KiB'])
        self.refused('perf', '--slots', '0', naming=['--slots'])
        self.refused('perf', '--service', 'ud', '--slots', '1', naming=['--slots', 'rc'])
        self.refused('perf', '--slots', '1', '--threads', '2', naming=['--slots', 'load'])
        self.refused('perf', '--receive-list', '17', naming=['--receive-list'])
        self.refused('perf', '--service', 'uc', '--receive-list', '2', naming=['--receive-list', 'rc'])
        self.refused('perf', '--receive-list', '2', '--threads', '2', naming=['--receive-list', 'load'])
        self.refused('perf', '--listen', '7', naming=['--listen', '--server'])
        self.refused('perf', '--server', '--connect', 'x', naming=['--server', '--connect'])

    def test_configuration_options(self):
        self.refused('run', '--port', 'loopback0', '--ip', '192.0.2.300/24', '--', 'true', naming=['--ip', '192.0.2.300'])
        self.refused('run', '--port', 'loopback0', '--ip', '192.0.2.1', '--', 'true', naming=['--ip', '192.0.2.1'])
        self.refused('run', '--port', 'loopback0', '--mtu', 'big', '--', 'true', naming=['--mtu', 'big'])
        self.refused('run', '--port', 'loopback0', '--mac', '01:00:00:00:00:01', '--', 'true', naming=['--mac'])
        self.refused('run', '--poller', 'eager', '--', 'true', naming=['--poller', 'eager'])
        self.refused('run', '--poller-idle', 'sleepy', '--', 'true', naming=['--poller-idle', 'sleepy'])
        self.refused('run', '--mtu', '1500', '--', 'true', naming=['--mtu', 'host service'])
        self.refused('run', '--port', 'loopback0', '--port', 'loopback0', '--', 'true', naming=['loopback0'])
        # In the words of the command line, not of a file that does not exist.
        for option, value in ('--ip', '192.0.2.1/24'), ('--mac', '02:00:00:00:00:01'):
            refusal = subprocess.run([UROCE, 'run', '--interface', 'lo', option, value, '--', 'true'], capture_output=True, text=True,
                                     env=ENVIRONMENT)
            self.assertEqual(refusal.returncode, 2)
            self.assertIn(f'{option}: does not go together with an interface', refusal.stderr)
            self.assertNotRegex(refusal.stderr, r'device\.|command line|:[0-9]+:')

    def test_a_log_of_json(self):
        """Every line is an object, also those of DPDK, and numbers of objects and counters are fields."""
        run = uroce('perf', '--quiet', '--op', 'write', '--size', '64', '--iterations', '10', '--log-format', 'json', '--log-counters', 'true',
                    '--log-level', 'debug', '--config', str(pathlib.Path(EMBEDDED).with_name('net-ring.toml')))
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = [json.loads(line) for line in run.stderr.splitlines()]
        self.assertEqual({line['origin'] for line in lines}, {'uroce', 'dpdk'})
        counters = [line for line in lines if 'counters' in line['message']]
        self.assertEqual({line['device'] for line in counters}, {'uroce0', 'uroce1'})
        for line in counters:
            self.assertGreater(line['tx_frames'], 0)
            self.assertRegex(line['message'], rf"counters .*tx_frames {line['tx_frames']}\b")
            self.assertRegex(line['time'], r'\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\Z')
        states = [line for line in lines if 'queue_pair' in line]
        self.assertEqual({(line['from'], line['to']) for line in states}, {('RESET', 'INIT'), ('INIT', 'RTR'), ('RTR', 'RTS')})
        for line in states:
            self.assertRegex(line['message'], rf"\A{line['device']}: queue pair {line['queue_pair']:#x}: {line['from']} to {line['to']}")
            self.assertEqual(line['level'], 'debug')
            self.assertNotIn('reason', line)
        failed = uroce('run', '--log-format', 'json', '--port', 'nosuch', '--', 'ibv_devinfo')
        [line] = [json.loads(line) for line in failed.stderr.splitlines() if line.startswith('{')]
        self.assertEqual((line['level'], line['device']), ('error', 'uroce0'))
        self.assertIn('nosuch', line['message'])
        self.refused('run', '--log-format', 'xml', '--', 'true', naming=['--log-format', 'xml'])

    def test_a_peer_in_another_process_on_the_embedded_pair(self):
        if shutil.which('rping') is None:
            self.skipTest('rping is not installed')
        lonely = subprocess.run([UROCE, 'run', '--config', EMBEDDED, '--', 'rping', '-c', '-C', '1', '-a', '192.0.2.1'], capture_output=True, text=True,
                                env=ENVIRONMENT, timeout=120)
        self.assertEqual(lonely.stderr.count('does not leave the process'), 1, lonely.stderr)

    def test_configuration_files(self):
        self.refused('run', '--config', '/nonexistent.toml', '--', 'true', naming=['/nonexistent.toml'])
        self.refused('run', '--config', '/', '--', 'true', naming=['/', 'directory'])
        bad = self.file('bad.toml', '[poller]\nmode = "inline"\n\n[device\n')
        self.refused('run', '--config', bad, '--', 'true', naming=[bad + ':4'])
        unknown = self.file('unknown.toml', '[[device]]\nport = "loopback0"\ncolour = "red"\n')
        self.refused('run', '--config', unknown, '--', 'true', naming=[unknown + ':3', 'colour'])
        self.refused('info', '--config', unknown, naming=['colour'])
        self.refused('perf', '--config', unknown, naming=['colour'])

    def test_bad_environment(self):
        run = uroce('run', '--', 'true', env={'UROCE_CONFIG_TEXT': '[poller]\nmode = 3\n'})
        self.assertEqual(run.returncode, 2)
        self.assertIn('UROCE_CONFIG_TEXT:2', run.stderr)


class Run(TestCase):
    def test_status_of_the_program(self):
        self.assertEqual(uroce('run', '--', 'true').returncode, 0)
        self.assertEqual(uroce('run', '--', 'false').returncode, 1)
        self.assertEqual(uroce('run', '--', 'sh', '-c', 'exit 42').returncode, 42)

    def test_a_signal_ends_the_program_itself(self):
        run = uroce('run', '--', 'sh', '-c', 'kill -TERM $$')
        self.assertEqual(run.returncode, -signal.SIGTERM)
        with subprocess.Popen([UROCE, 'run', '--', 'sleep', '60'], env=ENVIRONMENT) as sleeper:
            sleeper.send_signal(signal.SIGINT)
            self.assertEqual(sleeper.wait(timeout=60), -signal.SIGINT)

    def test_arguments_and_streams_pass_through(self):
        run = uroce('run', '--', 'printf', '%s|', '--config', '', 'a b', '--', '*')
        self.assertEqual(run.stdout, '--config||a b|--|*|')
        self.assertEqual(uroce('run', '--', 'cat', input='through\n').stdout, 'through\n')

    def test_the_program_begins_with_the_first_word_that_is_no_option(self):
        for options in [], ['--no-device-files'], ['--log-level', 'error'], ['--log-level=error', '--no-device-files']:
            for mark in [], ['--']:
                run = uroce('run', *options, *mark, 'printf', '%s|', '--mtu', '--', '-h')
                self.assertEqual((run.returncode, run.stdout), (0, '--mtu|--|-h|'), run.stderr)
        self.refused('run', '--config', '--', 'true', naming=['--config'])
        self.refused('run', '--', '-h', status=127, naming=['-h'])

    def test_missing_program(self):
        self.refused('run', naming=['program'])
        self.refused('run', '--', status=2, naming=['program'])
        self.refused('run', '--', '/nonexistent/program', status=127, naming=['/nonexistent/program'])
        self.refused('run', '--', 'no-such-program-anywhere', status=127, naming=['no-such-program-anywhere'])
        self.refused('run', '--', self.file('text', 'hello'), status=126, naming=['text'])

    def environment_of(self, *options, env=None):
        text = uroce('run', *options, '--', 'env', '-0', env=env or {}).stdout
        return dict(entry.split('=', 1) for entry in text.split('\0') if entry)

    def test_the_program_finds_library_and_configuration(self):
        seen = self.environment_of('--port', 'loopback4', '--ip', '198.51.100.7/24', '--ip', '2001:db8::7/64', '--mtu', '2000',
                                   '--port', 'loopback5', '--name', 'other', '--poller', 'dedicated',
                                   env={'LD_LIBRARY_PATH': '/elsewhere', 'UROCE_CONFIG': '/dev/null'})
        folder, rest = seen['LD_LIBRARY_PATH'].split(':', 1)
        self.assertTrue((pathlib.Path(folder) / 'libibverbs.so.1').exists())
        self.assertEqual(rest, '/elsewhere')
        self.assertNotIn('UROCE_CONFIG', seen)
        import tomllib
        told = tomllib.loads(seen['UROCE_CONFIG_TEXT'])
        first, second = told['device']
        self.assertEqual((first['port'], first['mtu']), ('loopback4', 2000))
        self.assertEqual(first['addresses'], ['198.51.100.7/24', '2001:db8::7/64'])
        self.assertEqual((second['port'], second['name']), ('loopback5', 'other'))
        self.assertEqual(told['poller']['mode'], 'dedicated')

    def test_options_go_over_the_file(self):
        path = self.file('one.toml', '[[device]]\nport = "loopback0"\nmtu = 1500\n[poller]\ntakeover_us = 7\n')
        import tomllib
        told = tomllib.loads(self.environment_of('--config', path, '--mtu', '3000')['UROCE_CONFIG_TEXT'])
        self.assertEqual(told['device'][0]['mtu'], 3000)
        self.assertEqual(told['device'][0]['port'], 'loopback0')
        self.assertEqual(told['poller']['takeover_us'], 7)

    def test_nothing_is_left_behind(self):
        uroce('run', '--', 'true', env={'TMPDIR': str(self.folder)}, cwd=self.folder)
        self.assertEqual(list(self.folder.iterdir()), [])


class Completion(TestCase):
    def candidates(self, *words):
        return [line.split('\t')[0] for line in uroce('--complete', *words).stdout.splitlines()]

    def test_names_are_those_of_help(self):
        self.assertLess({'run', 'perf', 'fault', 'decode'}, set(self.candidates('')))
        for command in ['perf'], ['serve'], ['stat'], ['fault', 'add']:
            said = uroce(*command, '--help-all' if command[0] in ('perf', 'serve') else '--help').stdout
            self.assertEqual(set(self.candidates(*command, '-')), set(re.findall(r'(?m)^  (?:-\w,)?(--[a-z0-9-]+)', said)))
        self.assertEqual(set(self.candidates('fault', '')), {'add', 'list', 'clear', 'break'})

    def test_values_files_and_programs(self):
        self.assertEqual(self.candidates('run', '--poller', ''), ['inline', 'dedicated'])
        self.assertEqual(self.candidates('perf', '--config', ''), [':files'])
        self.assertEqual(self.candidates('decode', '--json', ''), [':files'])
        self.assertEqual(self.candidates('run', 'ib'), [':command 1'])
        self.assertEqual(self.candidates('run', '--mtu', '1500', 'ping', '-'), [':command 3'])
        self.assertEqual(self.candidates('run', '--mtu', '1500', '--', 'ib'), [':command 4'])
        self.assertEqual(self.candidates('run', 'ping', '--config', ''), [':command 1'])

    def test_bash_asks_for_them(self):
        script = pathlib.Path(__file__).parents[2] / 'apps/completion/uroce.bash'
        ask = 'source "$1"; COMP_LINE=$2; COMP_POINT=${#COMP_LINE}; shift 2; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _uroce 2>/dev/null; ' \
              'printf "%s\\n" "${COMPREPLY[@]}"'
        for line, expected in (('fault cl', 'clear\n'), ('perf --arr', '--arrivals\n'), ('run print', 'printf\n'),
                               ('run --port net_ring0,a=1 --mt', '--mtu\n'), ('run --poller=ded', 'dedicated\n')):
            # As bash divides it.
            words = re.findall(r'[=:]|[^=:\s]+', line)
            said = subprocess.run(['bash', '-c', ask, 'bash', script, f'{UROCE} {line}', UROCE, *words], capture_output=True, text=True, env=ENVIRONMENT)
            self.assertIn(expected, said.stdout, said.stderr)

    def test_zsh_reads_its_script(self):
        if shutil.which('zsh') is None:
            self.skipTest('zsh is not installed')
        script = pathlib.Path(__file__).parents[2] / 'apps/completion/_uroce'
        self.assertEqual(subprocess.run(['zsh', '-n', script], capture_output=True, text=True).stderr, '')


class Configurations(TestCase):
    def test_every_scenario_is_read(self):
        folder = pathlib.Path(__file__).parents[2] / 'configs'
        files = sorted(folder.glob('*.toml'))
        self.assertGreater(len(files), 3)
        for path in files:
            run = uroce('run', '--config', str(path), '--', 'true')
            self.assertEqual(run.returncode, 0, run.stderr)


class Info(TestCase):
    def test_shows_devices_and_machine(self):
        run = uroce('info', '--config', EMBEDDED)
        self.assertEqual(run.returncode, 0, run.stderr)
        for what in 'device uroce0', 'device uroce1', '192.0.2.2', 'path MTU', 'queue pairs', 'processor', 'hugepages', 'DPDK':
            self.assertIn(what, run.stdout)

    def test_every_capability_names_a_test_that_exists(self):
        run = uroce('info', '-v', '--config', EMBEDDED)
        self.assertEqual(run.returncode, 0, run.stderr)
        named = set(re.findall(r'(?m)^    \S.{47}\S.{21}(.+)$', run.stdout))
        self.assertGreater(len(named), 30)
        tests = Tests(pathlib.Path(UROCE).parents[1])
        missing = [name for name in sorted(named) if name not in tests]
        self.assertEqual(missing, [])
        for nonsense in 'no test', 'verbs: Transfr', 'verbs: Transfer.Nothing', 'programs pingpong: Pingpong.test_nothing':
            self.assertNotIn(nonsense, tests)


class Tests:
    """Meson's tests of a build folder, and what is in them: "TEST", "TEST: SUITE" or "TEST: SUITE.CASE"."""

    def __init__(self, build):
        self.build = build
        self.tests = {test['name']: test for test in json.loads((build / 'meson-info' / 'intro-tests.json').read_text())}
        self.inside = {}

    def __contains__(self, name):
        test, _, inside = name.partition(': ')
        if test not in self.tests or not inside:
            return test in self.tests
        if test not in self.inside:
            self.inside[test] = self.look_into(self.tests[test])
        return inside in self.inside[test]

    def look_into(self, test):
        scripts = [word for word in test['cmd'] if word.endswith('_test.py')]
        found, suite = set(), ''
        if scripts:
            for kind, name in re.findall(r'(?m)^(class|    def) (\w+)', (self.build / scripts[0]).read_text()):
                if kind == 'class':
                    suite = name
                found.add(suite if kind == 'class' else f'{suite}.{name}')
            return found
        listed = subprocess.run([*test['cmd'], '--gtest_list_tests'], capture_output=True, text=True, timeout=120, check=True,
                                cwd=self.build, env=dict(ENVIRONMENT, **test['env'])).stdout
        # "Instance/Suite.", and below it "  Case/0  # what it is for".
        for indent, name in re.findall(r'(?m)^(  )?([\w/]+)\.?(?:  #.*)?$', listed):
            if not indent:
                suite = name.split('/')[-1]
            found.add(f"{suite}.{name.split('/')[0]}" if indent else suite)
        return found


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
