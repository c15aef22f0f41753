#pragma once

#include <gtest/gtest.h>
#include <infiniband/urocedv.h>

#include <cstddef>
#include <cstdint>

#include "ends.h"

namespace uroce::verbs_test {

inline constexpr unsigned kBoth = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
inline constexpr size_t kOffset = 5000;
inline constexpr size_t kLength = 20000;

/// A peer, and the owner of windows, whose region is `owner.mr`.
struct Pair {
  explicit Pair(urocedv_mw_type type)
      : peer(device_at(0), {}),
        owner(device_at(1), {.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND}),
        window(urocedv_alloc_mw(owner.pd, type)) {
    EXPECT_NE(window, nullptr);
    connect(peer, owner);
  }
  ~Pair() {
    if (window != nullptr) {
      EXPECT_EQ(ibv_dealloc_mw(window), 0);
    }
  }

  [[nodiscard]] ibv_mw_bind_info part(size_t offset = kOffset, size_t length = kLength,
                                      unsigned access = kBoth) const {
    return {.mr = owner.mr,
            .addr = reinterpret_cast<uintptr_t>(owner.memory.data()) + offset,
            .length = length,
            .mw_access_flags = access};
  }
  /// 0 or the errno of the post; as each type is bound.
  int post_bind(const ibv_mw_bind_info& info, unsigned flags = IBV_SEND_SIGNALED) const {
    if (window->type == IBV_MW_TYPE_1) {
      ibv_mw_bind bind{.wr_id = 7, .send_flags = flags, .bind_info = info};
      return ibv_bind_mw(owner.qp, window, &bind);
    }
    ibv_send_wr request{};
    request.wr_id = 7;
    request.opcode = IBV_WR_BIND_MW;
    request.send_flags = flags;
    request.bind_mw = {.mw = window, .rkey = ibv_inc_rkey(window->rkey), .bind_info = info};
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(owner.qp, &request, &bad);
    if (error == 0) window->rkey = request.bind_mw.rkey;
    return error;
  }
  [[nodiscard]] ibv_wc bind(const ibv_mw_bind_info& info) const {
    EXPECT_EQ(post_bind(info), 0);
    return owner.next();
  }
  void bind_well() const {
    const ibv_wc done = bind(part());
    ASSERT_EQ(done.status, IBV_WC_SUCCESS);
    ASSERT_EQ(done.opcode, IBV_WC_BIND_MW);
    ASSERT_EQ(done.wr_id, 7U);
  }
  /// Type 1: bound to nothing; type 2: invalidated.
  [[nodiscard]] ibv_wc unbind() const {
    if (window->type == IBV_MW_TYPE_1) return bind({});
    ibv_send_wr request{};
    request.opcode = IBV_WR_LOCAL_INV;
    request.send_flags = IBV_SEND_SIGNALED;
    request.invalidate_rkey = window->rkey;
    EXPECT_EQ(owner.send(request), 0);
    return owner.next();
  }

  [[nodiscard]] uint64_t address(size_t offset) const {
    return reinterpret_cast<uintptr_t>(owner.memory.data()) + offset;
  }
  [[nodiscard]] ibv_wc_status access(const End& from, ibv_wr_opcode opcode, uint64_t at, size_t bytes,
                                     uint32_t rkey) const {
    ibv_sge segment = from.part(0, bytes);
    ibv_send_wr request = write_request(1, segment, owner);
    request.opcode = opcode;
    request.wr.rdma.remote_addr = at;
    request.wr.rdma.rkey = rkey;
    EXPECT_EQ(from.send(request), 0);
    return from.next().status;
  }
  [[nodiscard]] ibv_wc_status write(uint64_t at, size_t bytes) const {
    return access(peer, IBV_WR_RDMA_WRITE, at, bytes, window->rkey);
  }
  [[nodiscard]] ibv_wc_status read(uint64_t at, size_t bytes) const {
    return access(peer, IBV_WR_RDMA_READ, at, bytes, window->rkey);
  }

  End peer;
  End owner;
  ibv_mw* window;
};

}  // namespace uroce::verbs_test
