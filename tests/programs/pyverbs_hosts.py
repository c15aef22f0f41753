"""Makes rdma-core's Python tests of the connection manager, which fork two processes, meet over a link between two hosts.

They fork a process that has opened a device, and both ends use one address of it. Here each end is a fresh process, with a
device of its own at an end of a memif link; and what the active end wants to be bound to is its own address.
"""

import enum
import multiprocessing
import os
import sys
import types

FOLDER = "UROCE_PYVERBS_TESTS"
SOCKET = "UROCE_PYVERBS_SOCKET"
PASSIVE, ACTIVE = "192.0.2.1", "192.0.2.2"
CONFIGURATION = """
[[device]]
name = "uroce0"
port = "net_memif0,role={role},id=0,socket={socket},socket-abstract=no,bsize=8192"
mac = "02:00:00:00:02:0{number}"
addresses = ["{address}/24"]
mtu = 4200
"""


def make_package(folder):
    """The package `tests`, whose own __init__ would import every module, also those of other devices' private interfaces."""
    os.environ[FOLDER] = str(folder)
    package = types.ModuleType("tests")
    package.__path__ = [os.path.join(folder, "tests")]
    sys.modules["tests"] = package
    sys.path[:0] = [str(folder), package.__path__[0]]


if FOLDER in os.environ:  # a process of one end: what it is to do comes out of the package
    make_package(os.environ[FOLDER])


def make_two_hosts(folder):
    """`folder`: for the link's socket."""
    import tests.base
    os.environ[SOCKET] = os.path.join(folder, "link")
    tests.base.mp = types.SimpleNamespace(get_context=lambda _: Hosts())
    # A test goes to its processes; the outcome, which is part of it, does not.
    tests.base.RDMACMBaseTest.__getstate__ = lambda self: {k: v for k, v in vars(self).items() if k != "_outcome"}


class Hosts:
    """A context of multiprocessing whose processes are not forked from one that has opened a device."""

    def __init__(self):
        self.context = multiprocessing.get_context("forkserver")
        self.Barrier = self.context.Barrier
        self.Queue = self.context.Queue

    def Process(self, target, kwargs):
        plain = {k: int(v) if isinstance(v, enum.IntEnum) else v for k, v in kwargs.items()}  # Cython's do not pickle
        return self.context.Process(target=run_on_a_host, args=(target, plain))


def run_on_a_host(target, kwargs):
    passive = kwargs["passive"]
    os.environ["UROCE_CONFIG_TEXT"] = CONFIGURATION.format(
        role="server" if passive else "client", number=1 if passive else 2, socket=os.environ[SOCKET],
        address=PASSIVE if passive else ACTIVE)
    if not passive:
        bind_to_the_own_address()
    target(**kwargs)


def bind_to_the_own_address():
    import tests.base_rdmacm
    import tests.rdmacm_utils
    every = tests.base_rdmacm.AddrInfo

    def own(src=None, **others):
        return every(src=ACTIVE if src == PASSIVE else src, **others)

    tests.base_rdmacm.AddrInfo = tests.rdmacm_utils.AddrInfo = own
