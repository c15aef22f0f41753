#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/mem/clients.h"
#include "apps/mem/exports.h"
#include "apps/mem/flusher.h"
#include "apps/mem/user_lookup.h"

namespace uroce::memory_export {

/// Grants clients access to regions, and brings what they wrote to the disk when they ask. One thread, which
/// waits for no client; data move without it.
class Server {
 public:
  using Clock = std::chrono::steady_clock;

  /// At all addresses; exports nothing yet. Throws client::Failure.
  explicit Server(uint16_t port);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  struct Settings {
    std::vector<RegionConfiguration> regions;
    size_t connections_per_client = 0;
  };
  /// From now on these are exported. Regions that were configured likewise keep their connections and keys;
  /// the connections of others end. An error is one line, and nothing has changed.
  Status apply(const Settings& settings);
  /// Whether clients of other hosts may reach any region.
  [[nodiscard]] bool serves_others() const { return exports_.for_others(); }

  /// Serves until `wake` is readable. Throws client::Failure when a device is lost.
  void run(int wake);

 private:
  static constexpr size_t kConnectionsMax = 256;
  static constexpr size_t kUnknownMax = kUserQuestionsMax;
  static constexpr size_t kMessageBytes = 64;
  static constexpr uint32_t kSendsMax = 4;
  static constexpr std::chrono::seconds kHandshake{10};
  static constexpr std::chrono::seconds kProbeInterval{5};
  static constexpr int kTickMs = 1000;

  /// A work request is named by the number of its connection and what it was.
  enum class Work : uint64_t { kReceive = 0, kAnswer = 1, kProbe = 2 };

  struct Connection {
    rdma_cm_id* id = nullptr;
    Client client;
    SharedRegistration registration;
    size_t slot = 0;  // of messages_
    bool established = false;
    bool flushing = false;
    bool probing = false;
    Clock::time_point since{};  // the request
    Clock::time_point heard{};  // of it last
  };
  struct Request {
    rdma_cm_id* id;
    uint8_t responder_resources;
    QpNumber queue_pair;
    std::span<const std::byte> private_data;
  };
  /// A request of a program of this host, until it is known whose that is.
  struct Unknown {
    rdma_cm_id* id;
    uint8_t responder_resources;
    std::string region;
  };

  void open_devices();
  void listen(uint16_t port);
  void wait(int wake, std::vector<int>& ready) const;

  // Events of rdma_cm.
  void read_events();
  void on_request(const Request& request);
  void on_users();
  void admit(const Request& request, const std::string& name, const Client& client);
  void refuse(rdma_cm_id* id, Refusal why);
  bool make_room(const Client& client);
  [[nodiscard]] size_t count_of(const Client& client) const;
  void say_refused(const Client& client);
  [[nodiscard]] bool has_too_many(const Client& client) const;
  bool accept(const Request& request, const Region& region, const Client& client);
  void on_event(rdma_cm_event_type type, uint64_t number);

  // Messages.
  void read_completions(DeviceRegions& device);
  void on_message(uint64_t number, Connection& connection, size_t length);
  void answer_flushes();
  bool post_receive(uint64_t number, const Connection& connection);
  bool post_answer(uint64_t number, const Connection& connection, int error);

  /// Ends connections that are late, and asks silent peers whether they are there.
  void watch();
  bool probe(uint64_t number, Connection& connection);
  void end(uint64_t number);
  void end_connections_of_removed_regions();

  [[nodiscard]] std::span<std::byte> received(const Connection& connection) {
    return std::span(messages_).subspan(connection.slot * 2 * kMessageBytes, kMessageBytes);
  }
  [[nodiscard]] std::span<std::byte> sent(const Connection& connection) {
    return std::span(messages_).subspan((connection.slot * 2 + 1) * kMessageBytes, kMessageBytes);
  }
  static uint64_t work_id(uint64_t number, Work work) { return number << 2 | static_cast<uint64_t>(work); }

  struct DestroyChannel {
    void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
  };

  Exports exports_;
  size_t connections_per_client_ = 0;
  bool refusal_logged_ = false;  // since the last apply()
  std::vector<std::byte> messages_;
  std::unique_ptr<rdma_event_channel, DestroyChannel> channel_;
  std::vector<std::unique_ptr<DeviceRegions>> devices_;
  Flusher flusher_{flush_piece};
  UserLookup lookup_{find_user, kUserQuestionsMax};
  std::map<uint64_t, Unknown> unknown_;  // by the number of their question
  uint64_t last_question_ = 0;
  rdma_cm_id* listener_ = nullptr;
  std::map<uint64_t, Connection> connections_;
  std::vector<size_t> free_slots_;
  uint64_t last_number_ = 0;
  Clock::time_point next_watch_{};
};

}  // namespace uroce::memory_export
