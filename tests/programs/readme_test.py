#!/usr/bin/env python3
"""The README's sections from "Run your RDMA program" to "See what it does", word by word: their shell blocks are run in their order.

    tests/programs/readme_test.py BUILD_FOLDER

A block called "sh server" is started and left alone as soon as it listens, the following "sh client" meets it, and
both must end well. All of it happens in namespaces that are this test's own: network, /run, /tmp and /usr/local go with
it.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import programs

BUILD = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
PRIVATE = "UROCE_README_PRIVATE"
TIME_LIMIT_SECONDS = 120
PROGRAM_PORT = 18515  # of ibv_rc_pingpong, when it is not told another


def blocks():
    """(kind, commands) of each shell block of the sections."""
    readme = (SOURCE / "README.md").read_text()
    section = re.search(r"^## Run your RDMA program\n(.*?^## See what it does\n.*?)^## ", readme, re.M | re.S)[1]
    # Another build folder than that of the README is tested as well.
    for kind, commands in re.findall(r"^```sh *(\w*)\n(.*?)^```$", section, re.M | re.S):
        yield kind, re.sub(r"(^|\s)build(?=/|\s)", lambda found: found[1] + str(BUILD), commands)


def start(commands):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("UROCE_")}
    return subprocess.Popen(["sh", "-e", "-c", commands], cwd=SOURCE, env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def expect_success(process, commands):
    try:
        output, _ = process.communicate(timeout=TIME_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        sys.exit(f"hangs:\n{commands}\nafter it said\n{process.communicate()[0]}")
    print(f"--- {process.returncode}\n{commands}{output}", flush=True)
    if process.returncode != 0:
        sys.exit(f"failed with {process.returncode}:\n{commands}")
    return output


def listens(process):
    """The program, in whatever network namespace it is, waits for its client."""
    for table in ("tcp", "tcp6"):
        lines = pathlib.Path(f"/proc/{process.pid}/net/{table}").read_text().splitlines()[1:]
        if any(words[1].endswith(f":{PROGRAM_PORT:04X}") and words[3] == "0A" for words in map(str.split, lines)):
            return True
    return False


def follow():
    server = None
    clients = 0
    for kind, commands in blocks():
        if kind == "server":
            # The shell becomes the program, so that its number is the program's.
            server = (start("exec " + commands), commands)
            programs.wait_until(lambda process=server[0]: listens(process), server[0])
            continue
        try:
            output = expect_success(start(commands), commands)
            if kind == "client":
                clients += 1
                for said in (output, expect_success(*server)):
                    assert "1000 iters" in said, said
        except BaseException:
            if server is not None:
                server[0].kill()
            raise
    assert clients >= 2, "the section has lost its examples"


def enter():
    """Runs this again in namespaces of its own, which end with it."""
    if os.geteuid() != 0:
        print("SKIPPED: network namespaces need root")
        sys.exit(programs.SKIPPED)
    missing = [name for name in ("unshare", "ip", "ibv_rc_pingpong", "ibv_devinfo", "meson") if shutil.which(name) is None]
    if missing:
        print(f"SKIPPED, not installed: {', '.join(missing)}")
        sys.exit(programs.SKIPPED)
    private = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*private, "true"], capture_output=True).returncode != 0:
        print("SKIPPED: no namespaces here")
        sys.exit(programs.SKIPPED)
    os.environ[PRIVATE] = "yes"
    os.execvp(private[0], [*private, sys.executable, *sys.argv])


def main():
    if PRIVATE not in os.environ:
        enter()
    # A service of the host itself, whose process is out of sight here, is not to be met at its socket.
    for folder in ("/run", "/usr/local", *([] if BUILD.is_relative_to("/tmp") else ["/tmp"])):
        subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.environ["PATH"] = "/usr/local/bin:" + os.environ["PATH"]
    follow()


main()
