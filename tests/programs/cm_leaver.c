// Connects, and leaves without a word: what becomes of its connection is its library's business.
//
//     cm_leaver ADDRESS PORT
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP};
  struct rdma_addrinfo* peer;
  struct ibv_qp_init_attr wanted = {
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC};
  struct rdma_cm_id* id;
  if (argc != 3 || rdma_getaddrinfo(argv[1], argv[2], &hints, &peer) != 0) return 2;
  if (rdma_create_ep(&id, peer, NULL, &wanted) != 0 || rdma_connect(id, NULL) != 0) {
    perror(argv[0]);
    return 1;
  }
  exit(0);
}
