#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/mem/layout.h"
#include "client/verbs_objects.h"

namespace uroce::memory_export {

/// Where a memory server is: an address or name of a host, and a port.
struct ServerPlace {
  std::string host = "127.0.0.1";
  uint16_t port = kDefaultPort;

  /// HOST, HOST:PORT, an IPv6 address, [IPV6]:PORT. Nullopt: it is none of these.
  static std::optional<ServerPlace> parse(const std::string& text);
  [[nodiscard]] std::string text() const;
};

/// How long it is waited for something before it is looked whether to go on.
inline constexpr int kLookMs = 1'000;

/// A connection to a memory server, and the region that it grants. Large ranges move in pieces through a
/// small buffer, several at a time. One thread. Throws client::Failure, and client::Interrupted after
/// client::note_interruptions().
class RemoteRegion {
 public:
  using Take = std::function<void(std::span<const std::byte> bytes)>;
  using Fill = std::function<void(std::span<std::byte> bytes)>;

  /// The directory has the empty name.
  RemoteRegion(const ServerPlace& server, const std::string& name);
  ~RemoteRegion();
  RemoteRegion(const RemoteRegion&) = delete;
  RemoteRegion& operator=(const RemoteRegion&) = delete;

  [[nodiscard]] uint64_t length() const { return grant_.length; }
  [[nodiscard]] bool writable() const { return grant_.writable; }

  /// Gives `take` the range piece by piece, in order.
  void read(uint64_t offset, uint64_t length, const Take& take);
  /// Has `fill` say what the range is to be, piece by piece, in order. The data are in the server's memory
  /// when this returns.
  void write(uint64_t offset, uint64_t length, const Fill& fill);
  /// Returns when what was written to the range is in the file.
  void flush(uint64_t offset, uint64_t length);

 private:
  // Together less than what an ordinary user may lock: 8 MiB, of which the queues take a part.
  static constexpr size_t kPieceBytes = 256 << 10;
  static constexpr size_t kPieces = 8;
  static constexpr size_t kMessageBytes = 64;

  struct Piece {
    uint64_t offset;  // in the region
    uint32_t length;
  };
  struct DestroyChannel {
    void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
  };
  using CompletionChannel = std::unique_ptr<ibv_comp_channel, client::Destroyer<ibv_destroy_comp_channel>>;

  void resolve(const ServerPlace& server);
  void make_queue_pair();
  void connect(const std::string& name);
  /// The next event of rdma_cm; nullopt when there is none within so many milliseconds.
  struct Event {
    rdma_cm_event_type type;
    int status;
    std::vector<std::byte> private_data;
  };
  std::optional<Event> next_event(int wait_ms);
  void expect(rdma_cm_event_type type);
  [[nodiscard]] std::string why_refused(const Event& event, const std::string& name) const;

  [[nodiscard]] std::span<std::byte> piece(size_t slot) const {
    return {buffer_.get() + slot * kPieceBytes, kPieceBytes};
  }
  void post(ibv_wr_opcode opcode, size_t slot, const Piece& piece);
  /// Waits for the next completion; they come in the order of posting.
  ibv_wc next_completion(std::string_view what);
  void check(const ibv_wc& done, std::string_view what) const;
  void sleep_until_completion();
  void release();

  const std::string server_;  // for messages
  std::unique_ptr<rdma_event_channel, DestroyChannel> channel_;
  rdma_cm_id* id_ = nullptr;
  client::ProtectionDomain domain_;
  CompletionChannel completion_channel_;
  client::CompletionQueue completions_;
  std::unique_ptr<std::byte[]> buffer_;
  client::MemoryRegion memory_;
  Grant grant_;
  bool connected_ = false;
  bool armed_ = false;  // the completion queue tells its channel
};

}  // namespace uroce::memory_export
