"""A stream of the kernel's TCP beside the traffic of a test: two programs in Python, for `python3 -c`. The server says its port, and
then the digest of what came; the client is told the port.
"""

import hashlib
import random

SERVER_ADDRESS = "192.0.2.1"
BLOCK_BYTES, BLOCKS = 1_000_000, 50
TCP_SERVER = f"""
import hashlib, socket
with socket.create_server(("{SERVER_ADDRESS}", 0)) as server:
    print(server.getsockname()[1], flush=True)
    peer, _ = server.accept()
    seen = hashlib.sha256()
    while data := peer.recv(65536):
        seen.update(data)
    print(seen.hexdigest())
"""
TCP_CLIENT = f"""
import random, socket, sys
data = random.Random(5).randbytes({BLOCK_BYTES}) * {BLOCKS}
with socket.create_connection(("{SERVER_ADDRESS}", int(sys.argv[1]))) as peer:
    peer.sendall(data)
"""


def sent_digest():
    return hashlib.sha256(random.Random(5).randbytes(BLOCK_BYTES) * BLOCKS).hexdigest()
