// A program that carries a DPDK of its own inside it, linked statically, and uses the verbs beside it: two
// EALs in one process that know nothing of each other.
#include <infiniband/verbs.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iterator>

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "static_eal: %s\n", what);
  _exit(1);
}

/// Takes all buffers, fills them and gives them back.
void use(rte_mempool* pool) {
  constexpr unsigned kBuffers = 128;
  rte_mbuf* buffers[kBuffers];
  for (rte_mbuf*& buffer : buffers) {
    buffer = rte_pktmbuf_alloc(pool);
    if (buffer == nullptr) fail("no buffer of its own pool");
    std::memset(rte_pktmbuf_mtod(buffer, void*), 0x5A, rte_pktmbuf_tailroom(buffer));
  }
  for (rte_mbuf* buffer : buffers) rte_pktmbuf_free(buffer);
  if (rte_mempool_avail_count(pool) != kBuffers) fail("buffers are lost");
}

}  // namespace

int main() {
  const char* arguments[] = {
      "static_eal",    "--no-huge",        "-m", "64", "--no-pci", "--no-shconf", "--no-telemetry",
      "--log-level=1", "--file-prefix=own"};
  if (rte_eal_init(std::size(arguments), const_cast<char**>(arguments)) < 0) fail("EAL does not start");
  rte_mempool* pool = rte_pktmbuf_pool_create("own", 128, 0, 0, 2048, -1);
  if (pool == nullptr) fail("no pool");
  use(pool);
  const unsigned lcores = rte_lcore_count();
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr || count != 2) fail("not two devices");
  ibv_context* contexts[] = {ibv_open_device(list[0]), ibv_open_device(list[1])};
  ibv_free_device_list(list);
  for (ibv_context* context : contexts) {
    ibv_port_attr port{};
    if (context == nullptr || ibv_query_port(context, 1, &port) != 0) fail("a device does not open");
  }
  use(pool);
  if (rte_lcore_count() != lcores) fail("its lcores have become others");
  for (ibv_context* context : contexts)
    if (ibv_close_device(context) != 0) fail("a device does not close");
  use(pool);
  return rte_eal_cleanup() == 0 ? 42 : 1;
}
