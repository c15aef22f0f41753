#include "apps/perf/ends/endpoint.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace uroce::perf {
namespace {

constexpr uint64_t kBytes = 64;

const Plan& plan() {
  static const Plan one{
      .service = Service::kUd, .operations = {Operation::kSend}, .sizes = {kBytes}, .depth = 4};
  return one;
}

void meet(Endpoint& left, Endpoint& right) {
  const Layout layout = Layout::of(kBytes, 4, lead_of(Service::kUd));
  left.begin_round(layout);
  right.begin_round(layout);
  left.connect(right.address());
  right.connect(left.address());
}

/// What arrives until there is something, or for a while.
uint64_t received(Endpoint& end, std::chrono::milliseconds patience) {
  const auto last = std::chrono::steady_clock::now() + patience;
  do {
    if (const Completions found = end.poll(); found.received != 0) return found.received;
  } while (std::chrono::steady_clock::now() < last);
  return 0;
}

TEST(Endpoint, AMessageOfOneRoundIsNotOneOfTheNext) {
  Endpoint left({.name = "uroce0"}, plan());
  Endpoint right({.name = "uroce1"}, plan());
  meet(left, right);
  right.post_receives(0, 2);
  left.post(Operation::kSend, 0, 1);
  ASSERT_EQ(received(right, std::chrono::seconds(10)), 1u);

  left.post(Operation::kSend, 1, 1);  // it arrives while no thread polls
  while (left.poll().sent == 0) {
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  meet(left, right);
  EXPECT_EQ(received(right, std::chrono::milliseconds(50)), 0u);

  right.post_receives(0, 1);
  left.post(Operation::kSend, 0, 1);
  EXPECT_EQ(received(right, std::chrono::seconds(10)), 1u);
}

}  // namespace
}  // namespace uroce::perf
