#!/usr/bin/env python3
"""The Debian packages, made from this tree, in a fresh chroot of the release: installed, used as an ordinary user, upgraded beside a running
service, removed.

    tests/package/package_test.py [DEBS]      as root

DEBS: a folder with packages that configs/package has made; without it they are made first (--plain), in twelve minutes on two cores.
UROCE_CHROOTS: where the chroot of the base system is kept (/var/cache/uroce-chroots).
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import chroot

TOP = Path(__file__).resolve().parents[2]
CHROOTS = Path(os.environ.get("UROCE_CHROOTS", "/var/cache/uroce-chroots"))
USER = "nobody"
# Two programs of one host, the server first; both have to end well.
PAIR = """
server() { uroce run -- %(server)s; }
client() { uroce run -- %(client)s; }
server & pid=$!
# Until the server listens.
for i in $(seq 40); do client && break; sleep 0.5; done
wait $pid
"""


def release_of_this_machine():
    return next(line.split("=")[1].strip() for line in Path("/etc/os-release").read_text().splitlines() if line.startswith("VERSION_CODENAME="))


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("a chroot needs root")
        subprocess.run([TOP / "apps/install-packages", "package"], check=True, stdout=subprocess.DEVNULL)
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="uroce-package-")))
        cls.debs = Path(sys.argv[1]) if len(sys.argv) > 1 else cls.made_packages()
        base = chroot.Chroot(CHROOTS / release_of_this_machine(), release_of_this_machine())
        base.make()
        cls.chroot = base.copy_of(cls.folder / "root")
        # What the packages recommend, and what the test itself needs.
        cls.chroot.install("ibverbs-utils", "rdmacm-utils", "perftest", "iproute2")
        cls.files_before = cls.chroot.files()
        for name in ("uroce", "uroce-dev"):
            shutil.copy(cls.newest(name), cls.chroot.root / "root" / f"{name}.deb")
        cls.chroot.install("/root/uroce.deb", "/root/uroce-dev.deb")

    @classmethod
    def made_packages(cls):
        subprocess.run([TOP / "configs/package", "--plain", cls.folder / "debs"], check=True)
        return cls.folder / "debs"

    @classmethod
    def newest(cls, name):
        return max(cls.debs.glob(f"{name}_*.deb"), key=lambda deb: deb.stat().st_mtime)

    def as_user(self, script):
        return self.chroot.run(f"export HOME=/tmp XDG_RUNTIME_DIR=/tmp; {script}", user=USER)

    def test_1_a_device_is_there(self):
        self.assertIn("uroce0", self.as_user("uroce run -- ibv_devices"))

    def test_1_transfers_are_verified(self):
        self.assertIn("verified", self.as_user("uroce perf --duration 0.1"))

    def test_1_perftest(self):
        said = self.as_user(PAIR % {"server": "ib_write_bw -F -n 1000", "client": "ib_write_bw -F -n 1000 127.0.0.1"})
        self.assertIn("BW average", said)

    def test_1_rping(self):
        self.as_user(PAIR % {"server": "rping -s -C 10", "client": "rping -c -a 127.0.0.1 -C 10"})

    def test_1_pages_and_files(self):
        self.chroot.run("test -s /usr/share/man/man1/uroce.1.gz; test -s /usr/share/man/man3/urocedv_get_dma_mr.3.gz; "
                        "test -s /usr/lib/systemd/system/uroce.socket -o -s /lib/systemd/system/uroce.socket; "
                        "test -s /etc/uroce/serve.toml; test -s /usr/include/infiniband/urocedv.h")
        self.assertIn("serve", self.chroot.run("timeout 20 uroce serve --help"))

    def test_1_no_program_finds_the_libraries_unasked(self):
        self.assertNotIn("uroce", self.chroot.run("ldd $(command -v ibv_devices); ldconfig -p | grep uroce || true"))

    def test_1_the_socket_starts_the_service(self):
        """Nothing here is process 1: what systemd would be told."""
        subprocess.run(["dpkg-deb", "--control", self.newest("uroce"), self.folder / "control"], check=True)
        told = {script: (self.folder / "control" / script).read_text() for script in ("postinst", "prerm", "postrm")}
        self.assertIn("deb-systemd-invoke start 'uroce.socket'", told["postinst"])
        for script, text in told.items():
            # What was enabled by hand stays so; nothing starts, stops or restarts the service itself.
            self.assertNotRegex(text, r"(deb-systemd-invoke|_dh_action=).*uroce\.service", script)
            self.assertNotIn("restart", text, script)

    def test_2_an_upgrade_beside_a_running_service(self):
        newer = self.newer_package()
        said = self.chroot.run(
            f"""
            mkdir -p /run/uroce
            uroce serve --config /etc/uroce/serve.toml --socket /run/uroce/service.sock & service=$!
            for i in $(seq 100); do [ -S /run/uroce/service.sock ] && break; sleep 0.1; done
            uroce run -- ibv_rc_pingpong -g 1 -n 3000000 >/tmp/server & server=$!
            sleep 2
            uroce run -- ibv_rc_pingpong -g 1 -n 3000000 127.0.0.1 >/tmp/client & client=$!
            dpkg --install {newer}
            kill -0 $client
            wait $client
            wait $server
            cat /tmp/client
            uroce run -- ibv_devices
            kill $service
            wait $service
            """)
        self.assertIn("3000000 iters", said)
        self.assertIn("uroce0", said)

    def newer_package(self):
        """The same with a later version."""
        deb = self.newest("uroce")
        tree = self.folder / "newer"
        subprocess.run(["dpkg-deb", "--raw-extract", deb, tree], check=True)
        control = tree / "DEBIAN/control"
        lines = control.read_text().splitlines()
        control.write_text("".join(f"{line}+newer\n" if line.startswith("Version:") else f"{line}\n" for line in lines))
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, self.chroot.root / "root/newer.deb"], check=True, stdout=subprocess.DEVNULL)
        # The development package belongs to the version before.
        return "--force-depends /root/newer.deb"

    def test_3_nothing_of_it_stays(self):
        self.chroot.run("apt-get purge -y -q uroce uroce-dev && apt-get autoremove --purge -y -q", network=True)
        stays = {path for path in self.chroot.files() - self.files_before if "uroce" in path and not path.startswith("/root/")}
        self.assertEqual(stays, set())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
