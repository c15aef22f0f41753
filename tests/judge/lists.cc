// Decision: a READ is never followed by the invalidation of its window without a fence. A READ whose response
// is lost is asked for again, and its key is checked again.
//
// Decision: lists of rxe have neither BIND nor LOCAL_INV (-l). rxe repeats requests by performing later ones
// again, and a window that is bound already is an error to it. Cost: they are tried at rounds' ends only.

#include "tests/judge/lists.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include "base/values/random.h"
#include "tests/judge/model.h"

namespace uroce::judge {
namespace {

constexpr uint32_t kMessageBytesOfListMax = 1 << 20;
constexpr uint32_t kGapMax = 64;
constexpr uint32_t kWord = sizeof(uint64_t);

// In how many of 100 requests.
constexpr std::array<std::pair<Kind, uint64_t>, 9> kShares = {{{Kind::kSend, 14},
                                                               {Kind::kSendImmediate, 8},
                                                               {Kind::kSendInvalidate, 3},
                                                               {Kind::kWrite, 21},
                                                               {Kind::kWriteImmediate, 9},
                                                               {Kind::kRead, 21},
                                                               {Kind::kFetchAdd, 10},
                                                               {Kind::kCompareSwap, 10},
                                                               {Kind::kBind, 4}}};

class Maker {
 public:
  Maker(uint64_t seed, const Conditions& conditions)
      : random_(seed), conditions_(conditions), list_(frame()), model_(list_.target_seed) {}

  List make() {
    choose_theme();
    const uint64_t count = 1 + random_.below(random_.chance(1, 4) ? std::min(8u, conditions_.requests_max)
                                                                  : conditions_.requests_max);
    const uint64_t signaled_in_64 = std::array<uint64_t, 4>{64, 32, 6, 1}[random_.below(4)];
    uint32_t unsignaled = 0;
    while (list_.operations.size() < count && bytes_ < kMessageBytesOfListMax) {
      Operation operation = any();
      operation.signaled = unsignaled + 1 >= list_.depth || random_.chance(signaled_in_64, 64);
      unsignaled = operation.signaled ? 0 : unsignaled + 1;
      bytes_ += operation.length;
      model_.perform(operation);
      list_.operations.push_back(operation);
    }
    list_.operations.back().signaled = true;
    return std::move(list_);
  }

 private:
  List frame() {
    List list;
    list.depth = static_cast<uint32_t>(std::array<uint64_t, 4>{
        1, 2 + random_.below(7), 1 + random_.below(kDepthMax), kDepthMax}[random_.below(4)]);
    list.batch_max = static_cast<uint32_t>(1 + random_.below(random_.chance(1, 2) ? 1 : 16));
    list.receives_max = static_cast<uint32_t>(random_.chance(1, 2) ? kDepthMax : 1 + random_.below(8));
    list.target_seed = random_.next();
    list.pace_seed = random_.next();
    for (Range& window : list.windows) {
      window.length = static_cast<uint32_t>(kWord + random_.below(kTargetBytes - kWord + 1));
      window.offset = static_cast<uint32_t>(random_.below(kTargetBytes - window.length + 1));
    }
    return list;
  }

  /// What a list leaves out, the rest meets more often: some kinds of requests, and messages above a length.
  void choose_theme() {
    const uint32_t mtu = conditions_.path_mtu;
    length_max_ = std::array{64u, mtu, 4 * mtu, kMessageBytesMax}[random_.below(4)];
    for (size_t i = 0; i < shares_.size(); ++i) shares_[i] = kShares[i].second;
    if (random_.chance(1, 2)) return;
    for (uint64_t& share : shares_) {
      if (random_.chance(1, 2)) share = 0;
    }
    shares_[random_.below(shares_.size())] += 10;
  }

  Kind any_kind() {
    uint64_t at = random_.below(std::accumulate(shares_.begin(), shares_.end(), uint64_t{0}));
    size_t i = 0;
    while (at >= shares_[i]) at -= shares_[i++];
    return kShares[i].first;
  }

  /// Empty, about the length of packets, or of any order of magnitude.
  uint32_t any_length() {
    const uint32_t mtu = conditions_.path_mtu;
    const std::array edges = {0u, 1u, mtu - 1, mtu, mtu + 1, 2 * mtu, 4 * mtu - 1, kMessageBytesMax};
    if (random_.chance(1, 4)) return std::min(edges[random_.below(edges.size())], length_max_);
    const uint64_t power = uint64_t{1} << random_.below(std::bit_width(length_max_));
    return static_cast<uint32_t>(std::min<uint64_t>(power + random_.below(power), length_max_));
  }

  Operation any() {
    Operation operation;
    operation.kind = any_kind();
    choose_window(operation);
    operation.seed = random_.next();
    operation.segments = static_cast<uint8_t>(1 + (random_.chance(1, 3) ? random_.below(kSegmentsMax) : 0));
    operation.immediate = static_cast<uint32_t>(random_.next());
    operation.fence = operation.fence || random_.chance(1, 16);
    if (is_local(operation.kind)) return operation;
    if (is_atomic(operation.kind)) {
      make_atomic(operation);
    } else {
      operation.length = any_length();
      if (!is_send(operation.kind)) choose_target(operation);
      operation.inlined =
          operation.kind != Kind::kRead && operation.length <= conditions_.inline_max && random_.chance(1, 2);
    }
    take_slots(operation);
    return operation;
  }

  /// Something else takes the place of what needs a window where there is none.
  void choose_window(Operation& operation) {
    const bool ends_one = operation.kind == Kind::kSendInvalidate;
    const bool possible = ends_one ? live_ > 0 : conditions_.local_requests;
    if ((is_local(operation.kind) || ends_one) && !(possible && conditions_.windows))
      operation.kind = Kind::kSend;
    if (operation.kind == Kind::kBind) {
      if (spare_is_bound_) operation.kind = Kind::kLocalInvalidate;
      spare_is_bound_ = !spare_is_bound_;
    } else if (operation.kind == Kind::kSendInvalidate) {
      // A READ that is repeated when the window has ended would be refused.
      operation.fence = true;
      operation.window = --live_;
    } else if (!is_send(operation.kind) && conditions_.windows && live_ > 0 && random_.chance(1, 2)) {
      operation.window = static_cast<uint32_t>(random_.below(live_));
    }
  }

  Range allowed(const Operation& operation) const {
    return operation.window == kNoWindow ? Range{0, kTargetBytes} : list_.windows[operation.window];
  }

  void choose_target(Operation& operation) {
    const Range range = allowed(operation);
    operation.length = std::min(operation.length, range.length);
    operation.target =
        range.offset + static_cast<uint32_t>(random_.below(range.length - operation.length + 1));
  }

  void make_atomic(Operation& operation) {
    operation.length = kWord;
    operation.segments = 1;
    const Range range = allowed(operation);
    const uint32_t first = (range.offset + kWord - 1) / kWord;
    const uint32_t end = (range.offset + range.length) / kWord;
    if (first == end) operation.window = kNoWindow;
    // Few words, so that they meet each other and READs; or any.
    const uint64_t words = first == end ? kTargetBytes / kWord : end - first;
    const uint64_t among = random_.chance(1, 2) ? std::min<uint64_t>(words, 4) : words;
    operation.target = static_cast<uint32_t>(((first == end ? 0 : first) + random_.below(among)) * kWord);
    operation.operand = random_.next();
    operation.compare = random_.chance(1, 2) ? model_.word(operation.target) : random_.next();
  }

  void take_slots(Operation& operation) {
    const uint32_t alignment = is_atomic(operation.kind) ? kWord : 1;
    list_.arena_bytes += 1 + static_cast<uint32_t>(random_.below(kGapMax));
    list_.arena_bytes = (list_.arena_bytes + alignment - 1) / alignment * alignment;
    operation.slot = list_.arena_bytes;
    list_.arena_bytes += operation.length + 1;
    if (!takes_receive(operation.kind)) return;
    const uint32_t more = random_.chance(1, 2) ? 0 : static_cast<uint32_t>(random_.below(kGapMax));
    operation.receive_length = (is_send(operation.kind) ? operation.length : 0) + more;
    operation.receive_slot = list_.receive_bytes + 1 + static_cast<uint32_t>(random_.below(kGapMax));
    list_.receive_bytes = operation.receive_slot + operation.receive_length + 1;
  }

  Random random_;
  Conditions conditions_;
  List list_;
  Model model_;
  std::array<uint64_t, kShares.size()> shares_{};
  uint32_t length_max_ = kMessageBytesMax;
  uint32_t bytes_ = 0;
  uint32_t live_ = kWindows;  // the windows below it
  bool spare_is_bound_ = false;
};

static_assert(kMessageBytesOfListMax + kMessageBytesMax + kRequestsMax * (2 * kGapMax + 2 * kWord) <
              kArenaBytes);

}  // namespace

List make_list(uint64_t seed, const Conditions& conditions) { return Maker(seed, conditions).make(); }

const char* name_of(Kind kind) {
  constexpr std::array kNames = {
      "SEND", "SEND with immediate", "SEND with invalidate", "WRITE", "WRITE with immediate",
      "READ", "FETCH & ADD",         "COMPARE & SWAP",       "BIND",  "LOCAL_INV"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace uroce::judge
