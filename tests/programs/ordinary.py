"""Commands as an ordinary user: nobody, who has no capability."""

import os
import shutil
import subprocess

USER = 65534
COMMAND = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all")


def why_not(*files):
    """Why there can be no such commands, or none that read these files; or None."""
    if os.geteuid() != 0:
        return "only root can become one"
    if shutil.which("setpriv") is None:
        return "setpriv is not installed (Debian's package util-linux has it)"
    for file in files:
        if subprocess.run([*COMMAND, "test", "-r", str(file)], check=False).returncode != 0:
            return f"{file} is not for everybody to read"
    return None
