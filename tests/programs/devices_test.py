#!/usr/bin/env python3
"""ibv_devices and ibv_devinfo, as the distribution ships them, over the embedded default."""

import re
import shutil
import unittest

import programs


class Devices(unittest.TestCase):
    def test_ibv_devices_lists_the_configured_devices(self):
        status, output = self.stack.run(["ibv_devices"])
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"(?m)^\s+uroce0\s+[0-9a-f]{16}$")
        self.assertRegex(output, r"(?m)^\s+uroce1\s+[0-9a-f]{16}$")

    def test_ibv_devinfo_tells_all(self):
        status, output = self.stack.run(["ibv_devinfo", "-v"])
        self.assertEqual(status, 0, output)
        for device, address in (("uroce0", "192.0.2.1"), ("uroce1", "192.0.2.2")):
            part = output[output.index(f"hca_id:\t{device}"):].split("\nhca_id:")[0]
            for expected in (r"transport:\s+InfiniBand \(0\)", r"node_guid:\s+(?!0000:0000:0000:0000)",
                             r"state:\s+PORT_ACTIVE", r"link_layer:\s+Ethernet", r"active_mtu:\s+4096",
                             r"max_msg_sz:\s+0x80000000", r"atomic_cap:\s+ATOMIC_GLOB", r"max_srq:\s+[1-9]",
                             r"GID\[\s*0\]:\s+fe80:.*RoCE v2",
                             rf"GID\[\s*1\]:\s+::ffff:{re.escape(address)}, RoCE v2"):
                self.assertRegex(part, expected)
        self.assertNotIn("Failed", output)

    def test_a_device_that_is_not_there_is_not_found(self):
        status, output = self.stack.run(["ibv_devinfo", "-d", "mlx5_0"])
        self.assertNotEqual(status, 0, output)

    def test_raw_packets_are_refused_with_a_reason(self):
        if shutil.which("raw_ethernet_bw") is None:
            self.skipTest("raw_ethernet_bw is not installed (Debian's package perftest has it)")
        command = ["raw_ethernet_bw", "--client", "-d", "uroce0", "-B", "02:00:00:00:00:01", "-E", "02:00:00:00:00:02"]
        status, output = self.stack.run(command)
        self.assertNotEqual(status, 0, output)
        told = [line for line in output.splitlines() if line.startswith("uroce:")]
        self.assertEqual(len(told), 1, output)
        self.assertIn("IBV_QPT_RAW_PACKET", told[0])

    def test_an_error_in_the_configuration_is_told_in_one_line(self):
        status, output = self.stack.run(["ibv_devinfo"], configuration="[[device]]\nprot = 'loopback0'\n")
        self.assertNotEqual(status, 0, output)
        told = [line for line in output.splitlines() if line.startswith("uroce:")]
        self.assertEqual(len(told), 1, output)
        self.assertIn("prot", told[0])


programs.main("ibv_devices", "ibv_devinfo")
