#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

namespace uroce::verbs_test {

/// The device of that place in the list.
ibv_device* device_at(size_t index);

struct EndOptions {
  int completions = 64;
  uint32_t depth = 16;  // of both queues
  uint32_t segments = 4;
  uint32_t inline_bytes = 64;
  bool signal_all = false;
  bool with_channel = false;
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  size_t bytes = 1 << 16;
  ibv_qp_type type = IBV_QPT_RC;
  uint64_t operations = 0;  // flags IBV_QP_EX_WITH_: made by ibv_create_qp_ex for them
  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* initial) = ibv_create_qp;
};

/// One side of a connection as an application makes it: device, domain, queues, a region, a queue pair.
struct End {
  End(ibv_device* device, const EndOptions& options);
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  void to_init() const;
  void to_rtr(const End& peer) const;
  void to_rts() const;
  [[nodiscard]] ibv_qp_state state() const;

  [[nodiscard]] ibv_sge all() const { return part(0, memory.size()); }
  [[nodiscard]] ibv_sge part(size_t offset, size_t bytes) const;
  void fill(uint8_t seed);

  int send(ibv_send_wr request) const;
  int receive(uint64_t id, ibv_sge segment) const;
  /// Waits for the next completion; the test's time limit bounds it.
  [[nodiscard]] ibv_wc next() const;
  [[nodiscard]] bool nothing_to_poll() const;

  std::vector<uint8_t> memory;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
};

void connect(const End& one, const End& other);

ibv_send_wr send_request(uint64_t id, ibv_sge& segment);
ibv_send_wr write_request(uint64_t id, ibv_sge& segment, const End& to, size_t offset = 0);
ibv_send_wr read_request(uint64_t id, ibv_sge& segment, const End& from, size_t offset = 0);

ibv_qp_attr init_attributes(int access);
ibv_qp_attr rtr_attributes(const ibv_context* context, uint32_t peer_number, const ibv_gid& peer_gid);
ibv_qp_attr rts_attributes();
inline constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
inline constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int kRtsMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
inline constexpr int kRtrMaskUc =
    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
inline constexpr int kRtsMaskUc = IBV_QP_STATE | IBV_QP_SQ_PSN;
/// Index of the first configured address.
inline constexpr uint8_t kGidIndex = 1;

/// Two connected ends, one on each device of the embedded default.
class Connected : public ::testing::Test {
 protected:
  explicit Connected(const EndOptions& options = {})
      : one(device_at(0), options), other(device_at(1), options) {
    connect(one, other);
  }
  End one;
  End other;
};

}  // namespace uroce::verbs_test
