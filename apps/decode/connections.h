#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "apps/decode/inspected.h"
#include "apps/decode/managed_connections.h"
#include "apps/decode/requester_track.h"
#include "base/values/keyed_hash.h"

namespace uroce::decode {

/// What goes from one address to a queue pair of another: requests of one requester, and the responses to
/// those of the other direction.
struct Stream {
  Gid source;
  Gid destination;
  QpNumber qp;
  wire::Service service = wire::Service::kRc;
  FlowCounts counts;
  RequesterTrack requests;
  bool has_responses = false;
  Stream* peer = nullptr;           // the other direction, once it is known
  std::vector<Stream*> candidates;  // for it, of which not one alone is left
  uint32_t own_mtu = 0;
  uint32_t* mtu = &own_mtu;  // of both directions, when they are known to be one connection
  // Of UC: the packet before.
  bool has_former = false;
  Psn former_psn;
  wire::Opcode former_opcode;
  WrittenMessage message;
};

/// All connections of a capture. Which two directions belong together is told by the connection manager, or
/// by responses that only one requester can have asked for.
class Connections {
 public:
  /// Packets of more streams than that are not followed, but counted.
  static constexpr size_t kStreamsMax = 1u << 14;

  explicit Connections(HashKey key) : streams_(16, Hash{key}) {}
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// In the order of the capture. Adds to the packet's findings, and says how it came where that is not
  /// simply next.
  void receive(Inspected& packet, std::string& note);

  [[nodiscard]] const std::deque<Stream>& streams() const { return all_; }
  /// Whether of a connection's requests and responses only the one or the other were captured, those of this
  /// stream.
  [[nodiscard]] bool is_one_sided(const Stream& stream) const;
  [[nodiscard]] uint64_t not_followed() const { return not_followed_; }

 private:
  struct Key {
    Gid source;
    Gid destination;
    QpNumber qp;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    HashKey key;
    size_t operator()(const Key& of) const;
  };

  Stream* stream(const Key& key, wire::Service service);
  void receive_connected(Inspected& packet, Stream& stream, std::string& note);
  void receive_unreliable(Inspected& packet, Stream& stream);
  void find_peer(const Inspected& response, Stream& stream);
  static void join(Stream& one, Stream& other);
  void take_connection(const ManagedConnections::Established& established);

  std::deque<Stream> all_;
  std::unordered_map<Key, Stream*, Hash> streams_;
  std::map<std::pair<Gid, Gid>, std::vector<Stream*>> by_addresses_;
  Stream* newest_ = nullptr;
  ManagedConnections managed_;
  uint64_t not_followed_ = 0;
};

}  // namespace uroce::decode
