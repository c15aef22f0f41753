"""Two processes in two network namespaces, each with a device on an end of the veth pair between them."""

import namespaces
import programs

ROLES = {"server": "left", "client": "right"}


class VethPair(programs.Pair):
    CONFIGURATION = """
[[device]]
name = "uroce0"
port = "net_af_packet0,iface={link}"
addresses = ["192.0.2.{own}/24"]
"""

    def __init__(self, stack, net):
        """`net`: Namespaces with TCP, which may serve one pair after the other."""
        super().__init__(stack)
        self.net = net
        self.server_address = net.address(ROLES["server"])

    def configuration(self, role):
        return self.CONFIGURATION.format(own=1 if role == "server" else 2, link=namespaces.LINK)

    def start(self, role, command):
        return super().start(role, self.net.command(ROLES[role], command))
