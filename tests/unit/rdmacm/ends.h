#pragma once

#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace uroce::rdmacm_test {

/// Throws unless the call has returned 0; says which errno it is.
void must(int returned);
/// 0 or the errno of a call that returned -1.
int error_of(int returned);

/// Of `text` and a port.
class Address {
 public:
  explicit Address(const std::string& text, uint16_t port = 0);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage_); }

 private:
  sockaddr_storage storage_{};
};

/// Of the embedded default's devices, which one wire joins.
inline constexpr const char* kServer = "192.0.2.2";
inline constexpr const char* kClient = "192.0.2.1";

struct Acknowledge {
  void operator()(rdma_cm_event* event) const { rdma_ack_cm_event(event); }
};
/// Acknowledged when it goes.
using Event = std::unique_ptr<rdma_cm_event, Acknowledge>;

class Channel {
 public:
  Channel();
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  rdma_event_channel* get() const { return face_; }
  /// The next event, which must be of that type, or it throws. Waits as long as is not hopeless.
  Event take(rdma_cm_event_type type) const;
  [[nodiscard]] bool readable(int milliseconds = 0) const;

 private:
  rdma_event_channel* const face_;
};

/// Destroyed, with its queue pair and shared receive queue, when it goes.
class Id {
 public:
  Id() = default;
  explicit Id(rdma_cm_id* made) : face_(made) {}
  explicit Id(const Channel& channel, rdma_port_space space = RDMA_PS_TCP);
  Id(Id&& other) noexcept : face_(std::exchange(other.face_, nullptr)) {}
  Id& operator=(Id&& other) noexcept;
  ~Id() { end(); }

  void end();
  rdma_cm_id* get() const { return face_; }
  rdma_cm_id* operator->() const { return face_; }
  [[nodiscard]] uint16_t port() const;
  [[nodiscard]] ibv_qp_state qp_state() const;

 private:
  rdma_cm_id* face_ = nullptr;
};

ibv_qp_init_attr queue_pair_of(ibv_qp_type type);
void make_queue_pair(const Id& id, ibv_qp_type type = IBV_QPT_RC);

/// Both must be connected: one writes into the other's memory and sends a message.
void exchange_data(const Id& from, const Id& to);

std::span<const uint8_t> private_data_of(const rdma_cm_event& event);
/// `count` bytes that no zeroes are, as many as a message of `size` bytes carries.
std::vector<uint8_t> counting(size_t count, size_t size = 0);

/// A server that listens at one device, and a client at the other.
class Ends : public ::testing::Test {
 protected:
  explicit Ends(std::string server_address = kServer, std::string client_address = kClient)
      : at_server(std::move(server_address)), at_client(std::move(client_address)) {}

  void listen(int backlog = 8, rdma_port_space space = RDMA_PS_TCP);
  /// A client that knows the way.
  [[nodiscard]] Id caller(const Channel& channel, rdma_port_space space = RDMA_PS_TCP,
                          uint8_t type_of_service = 0) const;
  /// The same as `client`, with a queue pair.
  void prepare(ibv_qp_type type = IBV_QPT_RC);
  /// Asks, and takes the request's id as `server`, with a queue pair.
  Event request(ibv_qp_type type = IBV_QPT_RC, const rdma_conn_param* param = nullptr);
  /// Of both ends: the client's is returned.
  Event accept(const rdma_conn_param* param = nullptr);
  void connect(ibv_qp_type type = IBV_QPT_RC);

  const std::string at_server;
  const std::string at_client;
  Channel server_channel;
  Channel client_channel;
  Id listener;
  Id server;
  Id client;
};

}  // namespace uroce::rdmacm_test
