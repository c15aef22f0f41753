"""A Debian release in a folder, made by debootstrap, in which commands run with processes, a network and mounts of their own."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

MIRROR = "http://deb.debian.org/debian"
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LANG": "C.UTF-8",
               "HOME": "/root", "TERM": "dumb"}
# Runs before each command: the new network has a loopback interface alone, and it is down.
MOUNTS = ("mount -t proc proc {root}/proc && mount --rbind /sys {root}/sys && mount --rbind /dev {root}/dev && mount -t tmpfs tmpfs {root}/run && "
          "mount -t tmpfs tmpfs {root}/dev/shm && (ip link set lo up || true)")


class Chroot:
    def __init__(self, folder, release):
        self.root = Path(folder)
        self.release = release

    def make(self):
        """Debian's base system; what is there already is kept, and half of one is made anew."""
        complete = self.root / "etc/uroce-chroot-complete"
        if complete.exists():
            return
        if shutil.which("debootstrap") is None:
            raise FileNotFoundError("debootstrap is not installed")
        # debootstrap mounts file systems of the kernel there; one that was killed has left them.
        if any(f" {self.root}/" in line for line in open("/proc/self/mountinfo", encoding="utf-8")):
            raise FileExistsError(f"something is mounted below {self.root}: unmount it first")
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        subprocess.run(["debootstrap", "--variant=minbase", self.release, str(self.root), MIRROR], check=True, stdout=subprocess.DEVNULL)
        # No service is started by a package's installation: nothing here is process 1.
        policy = self.root / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        complete.touch()

    def copy_of(self, folder):
        """A chroot with the same files, for something that is to begin with a fresh one."""
        copy = Chroot(folder, self.release)
        shutil.rmtree(copy.root, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", str(self.root), str(copy.root)], check=True)
        return copy

    def run(self, script, user="root", network=False, check=True, seconds=600, shows=False):
        """A script of bash. `network`: the host's network, for apt; without it a loopback interface alone. Its output."""
        inside = ["chroot", str(self.root), "/usr/bin/env", "-i", *(f"{name}={value}" for name, value in ENVIRONMENT.items())]
        if user != "root":
            inside += ["setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups"]
        inside += ["bash", "-euo", "pipefail", "-c", script]
        mounts = MOUNTS.format(root=shlex.quote(str(self.root)))
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *([] if network else ["--net"]), "bash", "-ec", f'{mounts}; exec "$@"', "_", *inside]
        done = subprocess.run(command, text=True, timeout=seconds, stdout=None if shows else subprocess.PIPE,
                              stderr=None if shows else subprocess.STDOUT, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise AssertionError(f"{script}\nin {self.release} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def install(self, *packages):
        """By apt: names, or paths of files inside."""
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        self.run("apt-get update -q && apt-get install -y -q --no-install-recommends " + " ".join(packages), network=True, seconds=1800)

    def files(self):
        """All paths but those of /proc and the like, apt's lists and caches."""
        passed_over = ("var/cache", "var/lib/apt", "var/log", "var/lib/dpkg", "tmp", "run", "proc", "sys", "dev")
        return {path for path in self.run("find / -xdev -type f -o -xdev -type l").splitlines() if not path.lstrip("/").startswith(passed_over)}


def main():
    """chroot.py FOLDER RELEASE PACKAGE...: makes one."""
    chroot = Chroot(sys.argv[1], sys.argv[2])
    chroot.make()
    if sys.argv[3:]:
        chroot.install(*sys.argv[3:])


if __name__ == "__main__":
    main()
