// The owner: makes a region of each kind, has the peer try all of expectations.h with its key, and looks what
// became of the memory.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include "client/channel.h"
#include "client/failure.h"
#include "tests/keys/expectations.h"
#include "tests/keys/kinds.h"

namespace uroce::keys {
namespace {

using nlohmann::json;

constexpr uint32_t kMessageBytes = 24;

int rights_of(Granted granted) {
  switch (granted) {
    case Granted::kBoth:
      return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    case Granted::kRead:
      return IBV_ACCESS_REMOTE_READ;
    case Granted::kWrite:
      return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    case Granted::kNone:
      return IBV_ACCESS_LOCAL_WRITE;
  }
  return 0;
}

uint32_t key_of(const Region& region, Key key) {
  switch (key) {
    case Key::kRight:
      return region.key;
    case Key::kOtherLowBits:
      return region.key ^ 0x81;
    case Key::kOtherIndex:
      return region.key ^ 0x10000000;
  }
  return 0;
}

/// Offset in the region, which wraps, and length.
struct Range {
  uint64_t offset;
  uint32_t bytes;
};

Range range_of(const Region& region, Place place) {
  const uint64_t length = region.length();
  switch (place) {
    case Place::kFirstByte:
      return {0, 1};
    case Place::kLastByte:
      return {length - 1, 1};
    case Place::kBorder:
      return {region.pieces.front().size() - 5, 10};
    case Place::kWhole:
      return {0, static_cast<uint32_t>(length)};
    case Place::kNothing:
      return {uint64_t{1} << 50, 0};
    case Place::kOneTooMany:
      return {length - 1, 2};
    case Place::kLastIsTooMany:
      return {length - 3000, 3001};
    case Place::kBehind:
      return {length, 1};
    case Place::kOneTooEarly:
      return {uint64_t{0} - 1, 2};
    case Place::kBefore:
      return {uint64_t{0} - 1, 1};
    case Place::kAroundTheEnd:
      return {UINT64_MAX - region.address, 2};
  }
  return {};
}

class Owner {
 public:
  explicit Owner(const Options& options)
      : end_(options, send_ops_flags()), arena_(end_.context()), peer_(accept(options.tcp_port)) {
    peer_.send(end_.address());
    end_.set_peer(peer_.receive());
    connect();
  }

  void try_kind(const Kind& kind) {
    tried_ = 0;
    for (const Granted granted : {Granted::kBoth, Granted::kRead, Granted::kWrite, Granted::kNone}) {
      const Region region = kind.make(end_, arena_, rights_of(granted));
      try_all(kind.name, region,
              [&](const Attempt& a) { return a.granted == granted && a.state == State::kLive; });
      region.release();
    }
    const size_t endings = try_ending(kind, 0);
    for (size_t i = 1; i < endings; ++i) try_ending(kind, i);
    try_invalidations(kind);
    fmt::print("{}: {} attempts\n", kind.name, tried_);
  }

  void try_window_of_peer();

  /// How many attempts did not end as they should.
  size_t finish() {
    peer_.send({{"do", "end"}});
    arena_.unmap();
    end_.close();
    return wrong_;
  }

 private:
  static client::Channel accept(uint16_t port) {
    client::Listener listener(port);
    while (true)
      if (std::optional<client::Channel> peer = listener.accept(); peer) return std::move(*peer);
  }

  json order(const json& what) {
    peer_.send(what);
    return peer_.receive();
  }

  /// After every error, by then with other PSNs.
  void connect() {
    psn_ = (psn_ + 0x12345) & 0xFFFFFF;
    end_.connect(psn_);
    order({{"do", "connect"}, {"psn", psn_}});
  }

  void expect(bool right, const std::string& what) {
    if (right) return;
    ++wrong_;
    fmt::print("WRONG: {}\n", what);
  }

  void try_all(const std::string& name, const Region& region, const auto& wanted) {
    for (const Attempt& attempt : kAttempts) {
      if (wanted(attempt)) try_one(fmt::format("{}: {}", name, attempt.name), region, attempt);
    }
  }

  static bool is_after_end(const Attempt& attempt) { return attempt.state == State::kEnded; }

  /// How many endings there are.
  size_t try_ending(const Kind& kind, size_t which) {
    const Region region = kind.make(end_, arena_, rights_of(Granted::kBoth));
    const Region::Ending& ending = region.endings.at(which);
    ending.end();
    try_all(fmt::format("{}, {}", kind.name, ending.name), region, is_after_end);
    region.release();
    return region.endings.size();
  }

  void try_one(const std::string& name, const Region& region, const Attempt& attempt) {
    const Range range = range_of(region, attempt.place);
    const bool done = attempt.status == IBV_WC_SUCCESS;
    prepare(region);
    const bool write = attempt.operation == kWrite;
    const uint32_t seed = write ? seed_ + 1 : seed_;
    const json told = order({{"do", write ? "write" : "read"},
                             {"address", region.address + range.offset},
                             {"key", key_of(region, attempt.key)},
                             {"bytes", range.bytes},
                             {"seed", seed},
                             {"offset", range.offset}});
    const ibv_wc_status status = told.at("status");
    expect(status == attempt.status,
           fmt::format("{}: the peer got '{}' instead of '{}'", name, ibv_wc_status_str(status),
                       ibv_wc_status_str(attempt.status)));
    expect(told.at("right"), name + ": the peer has other data");
    if (write && done) written(region, range, seed);
    expect(std::ranges::equal(arena_.bytes(), memory_), name + ": the memory is not what it should be");
    finish_attempt(name, done, status);
  }

  void finish_attempt(const std::string& name, bool done, ibv_wc_status status) {
    ++tried_;
    const ibv_qp_state wanted = done ? IBV_QPS_RTS : IBV_QPS_ERR;
    expect(end_.state() == wanted, name + ": the owner's queue pair is in another state");
    if (!done || status != IBV_WC_SUCCESS) connect();
  }

  /// Fills the arena, and within it the region, with data that no attempt before has seen.
  void prepare(const Region& region) {
    seed_ += 2;
    std::ranges::fill(arena_.bytes(), static_cast<std::byte>(seed_));
    memory_.assign(arena_.bytes().begin(), arena_.bytes().end());
    written(region, {0, static_cast<uint32_t>(region.length())}, seed_);
    std::ranges::copy(memory_, arena_.bytes().begin());
  }

  /// Into what the memory should be.
  void written(const Region& region, const Range& range, uint32_t seed) {
    uint64_t at = 0;  // of the piece
    for (const auto& piece : region.pieces) {
      const uint64_t first = std::clamp(range.offset, at, at + piece.size());
      const uint64_t last = std::clamp(range.offset + range.bytes, first, at + piece.size());
      std::byte* start = memory_.data() + (piece.data() - arena_.bytes().data());
      fill({start + (first - at), last - first}, seed, first);
      at += piece.size();
    }
  }

  void try_invalidations(const Kind& kind) {
    for (const Invalidation& row : kInvalidations) {
      if (row.kind_allows != kind.peer_may_invalidate) continue;
      const Region region = kind.make(end_, arena_, rights_of(Granted::kBoth));
      if (row.state == State::kEnded) region.endings.front().end();
      try_invalidation(fmt::format("{}: {}", kind.name, row.name), region, row);
      const bool ended = row.state == State::kEnded || row.owner == IBV_WC_SUCCESS;
      try_all(fmt::format("{}, {}", kind.name, row.name), region, [&](const Attempt& a) {
        return ended ? is_after_end(a) : a.granted == Granted::kBoth && a.status == kDone;
      });
      region.release();
    }
  }

  void try_invalidation(const std::string& name, const Region& region, const Invalidation& row) {
    prepare(region);
    end_.post_receive(kMessageBytes);
    const uint32_t key = key_of(region, row.key);
    const json told = order({{"do", "send with invalidate"},
                             {"address", 0},
                             {"key", key},
                             {"bytes", kMessageBytes},
                             {"seed", seed_},
                             {"offset", 0}});
    const ibv_wc_status status = told.at("status");
    expect(status == row.peer, fmt::format("{}: the peer got '{}' instead of '{}'", name,
                                           ibv_wc_status_str(status), ibv_wc_status_str(row.peer)));
    const ibv_wc received = end_.completion();
    expect(received.status == row.owner,
           fmt::format("{}: the owner got '{}' instead of '{}'", name, ibv_wc_status_str(received.status),
                       ibv_wc_status_str(row.owner)));
    if (row.owner == IBV_WC_SUCCESS) {
      expect((received.wc_flags & IBV_WC_WITH_INV) != 0 && received.invalidated_rkey == key,
             name + ": the completion does not name the key");
      expect(is_filled(end_.buffer().first(kMessageBytes), seed_, 0), name + ": another message came");
    }
    expect(std::ranges::equal(arena_.bytes(), memory_), name + ": the memory is not what it should be");
    finish_attempt(name, row.peer == IBV_WC_SUCCESS, status);
  }

  End end_;
  Arena arena_;
  client::Channel peer_;
  std::vector<std::byte> memory_;  // what the arena should be
  uint32_t psn_ = 0;
  uint32_t seed_ = 0;
  size_t tried_ = 0;
  size_t wrong_ = 0;
};

/// The other way round: the owner uses a window of the peer's, and then invalidates it.
void Owner::try_window_of_peer() {
  constexpr uint32_t kBytes = 10000;
  const json window = order({{"do", "bind a window"}, {"bytes", kBytes}});
  const uint64_t address = window.at("address");
  const uint32_t key = window.at("key");
  const auto write = [&](uint32_t bytes, uint32_t seed) {
    fill(end_.buffer(), seed, 0);
    return end_.execute(IBV_WR_RDMA_WRITE, address, key, bytes).status;
  };
  const auto look = [&](uint32_t seed) {
    return order({{"do", "look"}, {"bytes", kBytes}, {"seed", seed}, {"then", 3}}).at("right").get<bool>();
  };

  order({{"do", "fill"}, {"seed", 3}});
  expect(write(kBytes, 1) == kDone && look(1), "WRITE to the peer's window");
  std::ranges::fill(end_.buffer(), std::byte{0});
  expect(end_.execute(IBV_WR_RDMA_READ, address, key, kBytes).status == kDone &&
             is_filled(end_.buffer().first(kBytes), 1, 0),
         "READ of the peer's window");
  order({{"do", "post a receive"}, {"bytes", 0}});
  expect(end_.execute(IBV_WR_SEND_WITH_INV, 0, key, 0).status == kDone, "SEND with invalidate to the peer");
  const json received = order({{"do", "receive"}});
  expect(received.at("status") == kDone && received.at("invalidated") == key,
         "the peer's completion does not name the key: " + received.dump());
  expect(write(kBytes, 2) == kRefused && look(1), "WRITE to the peer's window, which has ended");
  connect();
  fmt::print("window of the peer: written, read, invalidated, refused\n");
}

}  // namespace
}  // namespace uroce::keys

int main(int argc, char** argv) {
  using namespace uroce::keys;
  try {
    Owner owner(parse(argc, argv));
    for (const Kind& kind : kinds()) owner.try_kind(kind);
    owner.try_window_of_peer();
    const size_t wrong = owner.finish();
    fmt::print("{} wrong\n", wrong);
    return wrong == 0 ? 0 : 1;
  } catch (const std::exception& failure) {
    std::fflush(stdout);
    std::fprintf(stderr, "keys_owner: %s\n", failure.what());
    return 1;
  }
}
