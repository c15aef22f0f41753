#!/usr/bin/env python3
"""ibv_{rc,uc,ud,srq,xsrq}_pingpong between two processes, over memif and as programs of one host service, data checked where they
can check it; and what happens when one is killed."""

import shutil
import socket
import unittest

import host_service
import programs

PINGPONG = ["ibv_rc_pingpong", "-c", "-g", "1"]
SHARED_RECEIVES = ["ibv_srq_pingpong", "-c", "-g", "1"]
EXTENDED_RECEIVES = ["ibv_xsrq_pingpong", "-g", "1"]
# What the two tell each other over TCP: "lid:qpn:psn:gid" in hexadecimal and a zero byte.
ADDRESS_BYTES = len("0000:000000:000000:" + "0" * 32) + 1


def receive_exactly(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise AssertionError(f"closed after {len(data)} of {count} bytes")
        data += more
    return data


class Pingpong:
    """`pair()` makes a link."""

    def expect_success(self, *options, iterations=1000, program=PINGPONG):
        command = [*program, "-n", str(iterations), *options]
        with self.pair() as pair:
            pair.more_configuration = "[log]\ncounters = true\n"
            server = pair.start_server(command)
            client = pair.start_client(command)
            ends = {"client": programs.finish(client), "server": programs.finish(server)}
            # What one end did wrong the other end's counters may tell.
            story = "\n".join(f"--- {end} ended with {status}:\n{output}" for end, (status, output) in ends.items())
            for status, output in ends.values():
                self.assertEqual(status, 0, story)
                self.assertIn(f"{iterations} iters in", output, story)
                self.assertNotIn("invalid data", output, story)

    def test_polling(self):
        self.expect_success()

    def test_events(self):
        self.expect_success("-e")

    def test_posting_by_the_extended_interface(self):
        self.expect_success("-N")

    def test_time_stamps(self):
        self.expect_success("-t", "-N")

    def test_one_byte(self):
        self.expect_success("-s", "1")

    def test_many_large_messages(self):
        self.expect_success("-s", "1048576", "-m", "4096", iterations=200)

    def test_many_iterations(self):
        self.expect_success("-m", "4096", iterations=20000)

    def test_smallest_path_mtu(self):
        self.expect_success("-s", "10000", "-m", "256")

    def test_short_receive_queue(self):
        self.expect_success("-r", "2")

    def test_unreliable_connection(self):
        for options in ([], ["-e"], ["-s", "100000", "-m", "4096"]):
            with self.subTest(options):
                self.expect_success(*options, program=["ibv_uc_pingpong", "-c", "-g", "1"])

    def test_datagrams(self):
        for options in ([], ["-e"], ["-s", "1"]):
            with self.subTest(options):
                self.expect_success(*options, program=["ibv_ud_pingpong", "-c", "-g", "1"])

    def test_many_queue_pairs_on_a_shared_receive_queue(self):
        self.expect_success("-q", "16", program=SHARED_RECEIVES, iterations=1600)

    def test_a_shared_receive_queue_with_events(self):
        self.expect_success("-q", "4", "-e", program=SHARED_RECEIVES, iterations=400)

    def test_xrc(self):
        for options in (["-n", "1000"], ["-n", "200", "-e"], ["-n", "30", "-s", "1000000", "-m", "4096"]):
            with self.subTest(options), self.pair() as pair:
                command = [*EXTENDED_RECEIVES, *options]
                server = pair.start_server(command)
                ends = [programs.finish(pair.start_client(command)), programs.finish(server)]
                for status, output in ends:
                    self.assertEqual(status, 0, output)
                    self.assertIn("success", output)

    def expect_the_client_to_notice(self, *options):
        """The server is killed when it has told its address and the client has not heard it yet: the client's first
        message meets no program. (Later, with the client waiting for an answer, RC has nothing by which to notice.)"""
        command = [*PINGPONG, *options]
        with self.pair() as pair, socket.create_server(("127.0.0.1", 0)) as between:
            between.settimeout(programs.TIME_LIMIT_SECONDS)
            server = pair.start_server(command)
            client = pair.start_client(command, between.getsockname()[1])
            with between.accept()[0] as to_client, socket.create_connection(("127.0.0.1", pair.port)) as to_server:
                to_server.sendall(receive_exactly(to_client, ADDRESS_BYTES))
                answer = receive_exactly(to_server, ADDRESS_BYTES)
                server.kill()
                server.wait()
                to_client.sendall(answer)
                receive_exactly(to_client, len("done") + 1)
                to_client.sendall(b"done\0")
                status, output = programs.finish(client)
            self.assertNotEqual(status, 0, output)
            self.assertIn("retry counter exceeded", output)

    def test_who_polls_notices_a_killed_peer(self):
        self.expect_the_client_to_notice()

    def test_who_sleeps_on_events_notices_a_killed_peer(self):
        self.expect_the_client_to_notice("-e")


class OverMemif(Pingpong, unittest.TestCase):
    def pair(self):
        return programs.Pair(self.stack)


class OfOneHost(Pingpong, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.service = cls.enterClassContext(host_service.Service(cls.stack))

    def pair(self):
        return host_service.HostPair(self.stack, self.service)


class WithEmbeddedDevices(unittest.TestCase):
    """The wire is inside each process: two processes do not meet on it, and hear why."""

    def test_a_connection(self):
        port = str(programs.free_tcp_port())
        server = self.stack.start([*PINGPONG, "-p", port])
        self.addCleanup(server.kill)
        programs.wait_until(lambda: programs.listens(int(port), server.pid), server)
        status, output = programs.finish(self.stack.start([*PINGPONG, "-p", port, "127.0.0.1"]))
        self.assertNotEqual(status, 0, output)
        self.expect_the_hint(output)

    def test_a_connection_by_rdma_cm(self):
        if shutil.which("rping") is None:
            self.skipTest("rping is not installed (Debian's package rdmacm-utils has it)")
        status, output = self.stack.run(["rping", "-c", "-a", "192.0.2.1", "-C", "1"])
        self.assertNotEqual(status, 0, output)
        self.expect_the_hint(output)

    def expect_the_hint(self, output):
        hints = [line for line in output.splitlines() if line.startswith("uroce: ")]
        self.assertEqual(len(hints), 1, output)
        self.assertRegex(hints[0], "does not leave the process.*man uroce")


programs.main("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", "ibv_xsrq_pingpong")
