"""A RAM disk of 1 MiB that `uroce nvmf` exports to one host alone."""

SUBSYSTEM = "nqn.2026-11.example:disks"
FRIEND = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
STRANGER = "nqn.2014-08.org.nvmexpress:uuid:99999999-2222-3333-4444-555555555555"


def tables(address):
    """Lines of a configuration: the target listens at `address`."""
    return f"""
[[nvmf.listen]]
address = "{address}"

[[nvmf.subsystem]]
nqn = "{SUBSYSTEM}"
hosts = ["{FRIEND}"]

[[nvmf.subsystem.namespace]]
nsid = 1
driver = "ram"
size = "1M"
block_size = 512
"""
