#pragma once

#include <fcntl.h>

#include <set>

#include "ends.h"

namespace uroce::verbs_test {

/// By default one that belongs to no file.
ibv_xrcd* open_xrc_domain(ibv_context* context, int fd = -1, int flags = O_CREAT);

/// A shared receive queue of XRC, with a protection domain, a completion queue and memory of its own.
struct XrcReceiver {
  XrcReceiver(ibv_context* context, ibv_xrcd* xrcd, uint32_t depth = 8);
  ~XrcReceiver();
  XrcReceiver(const XrcReceiver&) = delete;
  XrcReceiver& operator=(const XrcReceiver&) = delete;

  /// Ends the queue only.
  void destroy_queue();
  [[nodiscard]] uint32_t number() const;
  [[nodiscard]] uint64_t address(size_t offset) const {
    return reinterpret_cast<uintptr_t>(memory.data() + offset);
  }
  int post(uint64_t id, size_t offset, size_t bytes) const;
  [[nodiscard]] ibv_wc next() const;
  [[nodiscard]] bool nothing_to_poll() const;

  std::vector<uint8_t> memory;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_srq* srq = nullptr;
};

ibv_qp* create_xrc_target(ibv_context* context, ibv_xrcd* xrcd);
/// An end that only sends.
EndOptions xrc_initiator();

/// Brings both up, as one connection. The end's device is `initiator`'s, the target's that of `context`.
void join(const End& initiator, ibv_qp* target);

/// Of a request as of RC.
ibv_send_wr to_receiver(ibv_send_wr request, uint32_t number);

/// A context that is closed behind everything that was made with it.
struct XrcServer {
  explicit XrcServer(ibv_device* device) : context(ibv_open_device(device)), xrcd(open_xrc_domain(context)) {}
  ~XrcServer() {
    EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  XrcServer(const XrcServer&) = delete;
  XrcServer& operator=(const XrcServer&) = delete;

  ibv_context* context;
  ibv_xrcd* xrcd;
};

/// A domain on the second device with two receivers, and a target that an initiator on the first device sends
/// to.
class XrcPair : public ::testing::Test {
 protected:
  XrcPair() { join(client, target); }
  ~XrcPair() override { EXPECT_EQ(ibv_destroy_qp(target), 0); }

  /// A signaled request about the beginning of `to`'s memory.
  [[nodiscard]] ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge& segment, const XrcReceiver& to) const;
  /// It goes out, and ends so.
  void expect_outcome(const ibv_send_wr& request, ibv_wc_status status) const;
  /// The next events are these, in any order.
  void expect_events(std::multiset<ibv_event_type> types) const;

  XrcServer server{device_at(1)};
  XrcReceiver first{server.context, server.xrcd};
  XrcReceiver second{server.context, server.xrcd};
  ibv_qp* target = create_xrc_target(server.context, server.xrcd);
  End client{device_at(0), xrc_initiator()};
};

}  // namespace uroce::verbs_test
