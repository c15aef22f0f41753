#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/failure.h"
#include "client/histogram.h"
#include "perf/end_to_end/rc_end.h"

namespace uroce::perf {

/// One end of round trips: a SEND or a WRITE that the far end answers with the next, or a READ. Every failure
/// throws. One thread.
class RoundTripEnd {
 public:
  /// The traffic of an end that has one message under way.
  static Traffic of_single_messages(Traffic traffic) {
    traffic.batch = 1;
    traffic.outstanding = 4;
    traffic.region_bytes = 4 * traffic.stride();
    return traffic;
  }

  RoundTripEnd(const std::string& device, const Traffic& traffic)
      : operation_(traffic.operation), end_(device, traffic, Part::kBoth) {
    for (uint64_t i = 0; i < traffic.targets(); ++i) end_.target(i).back() = kNoMark;
  }

  [[nodiscard]] const RcPlace& place() const { return end_.place(); }
  [[nodiscard]] std::vector<uint32_t> numbers() const { return end_.numbers(); }
  void connect(const RcPlace& peer, std::span<const uint32_t> numbers) {
    peer_ = peer;
    end_.connect(peer, numbers);
    // A message's receive is there before the one before it is acknowledged, as with any program that has
    // more than one.
    if (operation_ == Operation::kSend) {
      end_.post_receives();
      end_.post_receives();
    }
  }

  /// The far end's part, over and over.
  void answer() {
    if (!look() || operation_ == Operation::kRead) return;
    take();
    post();
  }

  /// The near end's.
  client::Histogram run(double seconds) {
    client::Histogram samples;
    const auto start = Clock::now();
    for (auto sent = start; seconds_since(start) < seconds; sent = Clock::now()) {
      post();
      wait_for_answer(sent);
      samples.record(static_cast<uint64_t>((Clock::now() - sent).count()));
      take();
    }
    return samples;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // In the last byte of a WRITE.
  static constexpr std::byte kNoMark{0};
  static std::byte mark(uint64_t message) { return static_cast<std::byte>(1 + message % 251); }
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  void post() {
    if (operation_ == Operation::kWrite) end_.source(posted_).back() = mark(posted_);
    ++posted_;
    end_.post(peer_);
  }
  /// True when the next message has come, or the READ's answer.
  bool look() {
    const RcEnd::Found found = end_.poll();
    if (operation_ == Operation::kSend) return found.received != 0;
    if (operation_ == Operation::kRead) return found.completed != 0;
    // Acquire: the message's other bytes were stored before its last one.
    const std::atomic_ref last(end_.target(taken_).back());
    return last.load(std::memory_order_acquire) == mark(taken_);
  }
  void take() {
    ++taken_;
    if (operation_ == Operation::kSend) end_.post_receives();
  }
  void wait_for_answer(Clock::time_point sent) {
    constexpr double kPatienceSeconds = 30;
    for (uint32_t polls = 1; !look(); ++polls) {
      if (polls % 65536 == 0 && seconds_since(sent) > kPatienceSeconds)
        throw client::Failure("no answer from the other end");
    }
  }

  const Operation operation_;
  RcEnd end_;
  RcPlace peer_;
  uint64_t posted_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace uroce::perf
