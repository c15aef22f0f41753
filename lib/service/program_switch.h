#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/values/keyed_hash.h"
#include "engine/poller/frame_switch.h"
#include "host/number_blocks.h"
#include "host/port_listeners.h"
#include "service/client_session.h"
#include "service/groups.h"
#include "service/held_requests.h"
#include "service/left_connections.h"
#include "service/management.h"
#include "service/number_owners.h"
#include "service/outgoing.h"
#include "service/request_routes.h"

namespace uroce::service {

/// Gives frames to the programs that share a device, and takes those that they send. A queue pair number says
/// whose a frame is: its upper bits are an index into a table. What comes to queue pair 1 goes to the program
/// that listens, or that has the connection. Programs come, go, bind and join in turns of the device's
/// poller 0, as everything else here happens: there is no lock, and what a program has can be unmapped when
/// it has been removed.
class ProgramSwitch final : public engine::FrameSwitch {
 public:
  /// How many frames of one program one call of collect() takes.
  static constexpr size_t kFramesMax = 32;
  /// How many copies of frames to groups one turn makes, before the last such frame: with many members each
  /// frame is long work. What comes beyond them is dropped.
  static constexpr size_t kGroupCopiesMax = 2048;

  struct Options {
    Identity device;
    uint32_t frame_bytes_max = 0;  // of the device's port
    HashKey key;                   // decides about places in tables
  };
  explicit ProgramSwitch(Options options);

  bool deliver(const Arrival& arrival) override;
  bool deliver_to_group(const Arrival& arrival) override;
  size_t collect(Instant now, port::TxBatch& batch) override;

  /// Frames for its numbers reach the program from now on, and what it sends is taken; until remove(), which
  /// also takes away what it has joined and remove_some() has left. Where it listened listeners() may say
  /// until that is erased: nothing is delivered there.
  void add(ClientSession& program);
  /// Takes away some of what the program has joined. True: nothing is left.
  bool remove_some(ClientSession& program) { return groups_.leave_some(program, kFramesMax); }
  void remove(ClientSession& program);
  [[nodiscard]] std::span<ClientSession* const> programs() const { return programs_; }

  /// Peers of connections that an ended program has left behind are told; LeftConnections::add().
  void disconnect(NumberBlock numbers, uid_t user, std::vector<host::OpenConnection> connections) {
    left_.add(numbers, user, std::move(connections), now_);
  }
  /// In how long collect() is to be called for that at the latest; nullopt: nothing is left to be told.
  [[nodiscard]] std::optional<Duration> time_to_disconnect() const;

  /// The time of the turn, before anything but collect().
  void set_time(Instant now) { now_ = now; }
  void set_addresses(net::GidTable gids) { options_.device.gids = std::move(gids); }
  /// The programs that listen at ports of rdma_cm.
  [[nodiscard]] host::PortListeners& listeners() { return listeners_; }
  [[nodiscard]] Groups& groups() { return groups_; }

 private:
  [[nodiscard]] ClientSession* find(uint32_t program) const;

  // Queue pair 1 (switch_management.cc).
  bool deliver_management(const Arrival& arrival);
  bool deliver_request(const Arrival& arrival, const Management& message);
  [[nodiscard]] ClientSession* listener_of(wire::ServiceId service, const Gid& meant) const;
  bool take_refused(const Gid& source, wire::CommId sender);
  void release_held(port::TxBatch& batch);
  bool refuse(const HeldRequests::Request& request, port::TxBatch& batch);
  void send_disconnects(port::TxBatch& batch);
  /// False: its address is not ours any more, or no frame can go there.
  bool write_disconnect(const host::OpenConnection& connection, port::TxFrame& frame);

  size_t collect_from(ClientSession& program, port::TxBatch& batch);
  /// Puts the frame that was copied into `frame` where it belongs. How many frames it counts for: one to a
  /// group as many as that has members.
  size_t forward(ClientSession& program, port::TxFrame& frame, port::TxBatch& batch);

  Options options_;
  NumberOwners owners_;
  std::vector<ClientSession*> programs_;
  std::unordered_map<uint32_t, ClientSession*> by_number_;
  size_t first_ = 0;  // of the programs, in the next collect()
  uint64_t turn_ = 1;
  Instant now_{};
  size_t group_copies_ = 0;  // in this turn
  wire::Packet packet_;

  host::PortListeners listeners_;
  Groups groups_;
  HeldRequests held_;
  RequestRoutes routes_;
  struct Refused {
    Gid source;
    wire::CommId sender;
  };
  LeftConnections left_;
  uint64_t next_transaction_;
  Psn next_psn_;
  std::vector<Refused> refused_;  // on their way back to deliver(), which leaves them to the device
};

}  // namespace uroce::service
