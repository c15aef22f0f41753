/* A user region: what ibv_reg_mr makes. The peer writes into it and reads from it by its key; here also by an
 * address of our choice instead of the process's. */
#include "pair.h"

enum { BYTES = 100000 };

int main(void) {
  struct pair pair = pair_open(0);
  unsigned char* memory = pattern(BYTES, 1);

  /* To the peer the memory begins at this address. */
  const uint64_t iova = 0x100000;
  struct ibv_mr* mr =
      ibv_reg_mr_iova(pair.pd, memory, BYTES, iova, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  CHECK(mr != NULL);
  CHECK(pair_far_read(&pair, iova + 1000, mr->rkey, 5000) == IBV_WC_SUCCESS);
  CHECK(memcmp(pair.far_memory, memory + 1000, 5000) == 0);

  /* It did not get the right to write. That costs the connection, as on hardware. */
  CHECK(pair_far_write(&pair, iova, mr->rkey, 1) == IBV_WC_REM_ACCESS_ERR);
  pair_connect(&pair);

  const uint32_t dead_key = mr->rkey;
  CHECK((errno = ibv_dereg_mr(mr)) == 0);
  CHECK(pair_far_read(&pair, iova, dead_key, 1) == IBV_WC_REM_ACCESS_ERR);
  puts(
      "user region: read by its key at an address of our choice, refused where it gives no right, and when "
      "it is gone");
  free(memory);
  pair_close(&pair);
  return 0;
}
