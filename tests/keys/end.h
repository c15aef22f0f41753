#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "client/verbs_device.h"
#include "client/verbs_objects.h"

namespace uroce::keys {

/// As of ibv_rc_pingpong: -d DEVICE -g GID_INDEX -m PATH_MTU -p TCP_PORT [OWNER]
struct Options {
  std::string device;
  uint32_t gid_index = 1;
  uint32_t path_mtu = 1024;
  uint16_t tcp_port = 0;
  std::string owner;  // host that the peer connects to
};

/// Throws client::Failure.
Options parse(int argc, char** argv);

/// Byte `at` of what is written, read or sent under that seed.
constexpr std::byte pattern(uint32_t seed, uint64_t at) {
  return static_cast<std::byte>(seed * 101 + at * 7 + (at >> 8));
}
void fill(std::span<std::byte> to, uint32_t seed, uint64_t at);
bool is_filled(std::span<const std::byte> with, uint32_t seed, uint64_t at);

/// One end of the connection, plain verbs only: a device, a queue pair and a buffer. One request at a time.
/// Failures throw.
class End {
 public:
  static constexpr size_t kBufferBytes = 64 << 10;

  /// `send_ops_flags`: of ibv_qp_init_attr_ex; 0 for an ordinary queue pair.
  End(const Options& options, uint64_t send_ops_flags);

  [[nodiscard]] ibv_context* context() const { return device_.context.get(); }
  [[nodiscard]] ibv_pd* domain() const { return domain_.get(); }
  [[nodiscard]] ibv_qp* queue_pair() const { return queue_pair_.get(); }
  [[nodiscard]] std::span<std::byte> buffer() { return {buffer_.get(), kBufferBytes}; }
  [[nodiscard]] const ibv_mr* buffer_region() const { return region_.get(); }

  /// What the other end has to know, and what it said.
  [[nodiscard]] nlohmann::json address() const;
  void set_peer(const nlohmann::json& address) { peer_ = address; }
  [[nodiscard]] const nlohmann::json& peer() const { return peer_; }

  /// From whatever state; what was outstanding is forgotten. Both ends take the same PSN.
  void connect(uint32_t psn);
  [[nodiscard]] ibv_qp_state state() const;

  /// WRITE from the buffer's start, READ to it, or a SEND of it with `key` to be invalidated; its completion.
  ibv_wc execute(ibv_wr_opcode operation, uint64_t address, uint32_t key, uint32_t bytes);
  void post(ibv_send_wr& request);
  /// Into the buffer.
  void post_receive(uint32_t bytes);
  ibv_wc completion();

  /// Ends everything; throws when something cannot be ended.
  void close();

 private:
  void modify(ibv_qp_attr attributes, int mask, const char* to_state);

  client::VerbsDevice device_;
  ibv_mtu path_mtu_;
  client::ProtectionDomain domain_;
  client::Buffer buffer_;
  client::MemoryRegion region_;
  client::CompletionQueue completions_;
  client::QueuePair queue_pair_;
  nlohmann::json peer_;
};

/// Throws client::Failure with what the errno value means, unless it is 0.
void check(int error, const char* call);

}  // namespace uroce::keys
