"""A program of Python whose children, forked by multiprocessing, use the device that it has open: each sends itself a message."""

import multiprocessing

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_MTU_1024, IBV_QPT_RC, IBV_WC_SUCCESS, IBV_WR_SEND
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

BYTES = 4096
CHILDREN = 4
GID_INDEX = 1


def exchange(seed):
    """Two queue pairs of this process; True: what one sent is what the other received."""
    context = Context(name=get_device_list()[0].name.decode())
    domain = PD(context)
    completions = CQ(context, 16)
    pairs = [QP(domain, QPInitAttr(qp_type=IBV_QPT_RC, scq=completions, rcq=completions, cap=QPCap(max_recv_wr=4, max_send_wr=4)))
             for _ in range(2)]
    gid = context.query_gid(1, GID_INDEX)
    for own, other in (pairs, pairs[::-1]):
        route = GlobalRoute(dgid=gid, sgid_index=GID_INDEX)
        attributes = QPAttr(port_num=1)
        attributes.dest_qp_num = other.qp_num
        attributes.path_mtu = IBV_MTU_1024
        attributes.timeout, attributes.retry_cnt, attributes.rnr_retry, attributes.min_rnr_timer = 14, 7, 7, 12
        attributes.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
        own.to_rts(attributes)
    region = MR(domain, 2 * BYTES, IBV_ACCESS_LOCAL_WRITE)
    message = bytes((seed * 37 + i) % 251 for i in range(BYTES))
    region.write(message, BYTES)
    pairs[1].post_recv(RecvWR(sg=[SGE(region.buf + BYTES, BYTES, region.lkey)], num_sge=1))
    pairs[0].post_send(SendWR(opcode=IBV_WR_SEND, num_sge=1, sg=[SGE(region.buf, BYTES, region.lkey)]))
    done = []
    while len(done) < 2:
        done += completions.poll(2)[1]
    return all(one.status == IBV_WC_SUCCESS for one in done) and bytes(region.read(BYTES, BYTES)) == message


def main():
    assert exchange(0)
    with multiprocessing.get_context("fork").Pool(CHILDREN) as pool:
        assert all(pool.map(exchange, range(1, CHILDREN + 1), chunksize=1))
    assert exchange(99)
    print(CHILDREN, "children")


if __name__ == "__main__":
    main()
