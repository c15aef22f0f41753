// The order of the checks of a key: of whatever is wrong at once, the first is the answer.
#include <gtest/gtest.h>

#include <string>

#include "mem/keys/region_table.h"

namespace uroce::mem {
namespace {

constexpr Fault kOrder[] = {Fault::kKey,   Fault::kDomain, Fault::kAccess,
                            Fault::kState, Fault::kBounds, Fault::kQueuePair};
constexpr unsigned kFaults = std::size(kOrder);
constexpr uint64_t kIova = 0x10000;
constexpr uint64_t kBytes = 100;

constexpr bool has(unsigned set, unsigned fault) { return (set >> fault & 1) != 0; }

class OrderOfChecks : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, OrderOfChecks, ::testing::Values(Layout::kContiguous, Layout::kPages));

/// All 64 combinations, on entries as windows of one queue pair and others have them.
TEST_P(OrderOfChecks, AnyFaultsAtOnce_ExpectTheFirst) {
  LockedMemory locked;
  RegionTable table({.entries_max = 256, .locked_memory = &locked});
  std::byte byte{};
  std::byte* pages[] = {&byte};
  for (unsigned wrong = 0; wrong < 1U << kFaults; ++wrong) {
    SCOPED_TRACE(wrong);
    const bool listed = GetParam() == Layout::kPages;
    KeyHistory history;
    MemoryKey key =
        table
            .make_entry_for_consumer({.kind = RegionKind::kWindow2B,
                                      .layout = GetParam(),
                                      .page_shift = 12,
                                      .bound = !has(wrong, 3),
                                      .domain = {1},
                                      .queue_pair = {has(wrong, 5) ? 18U : 17U},
                                      .access = has(wrong, 2) ? kRemoteRead : kRemoteWrite | kRemoteRead,
                                      .iova = kIova,
                                      .length = kBytes,
                                      .memory = listed ? static_cast<void*>(pages) : &byte},
                                     history)
            .value();
    if (has(wrong, 0)) key.value ^= 1;
    const KeyUser user{.domain = {has(wrong, 1) ? 2U : 1U}, .queue_pair = {17}};
    const Binding binding =
        table.resolve(key, user, kIova + 1, has(wrong, 4) ? kBytes : kBytes - 1, kRemoteWrite);
    Fault expected = Fault::kNone;
    for (unsigned fault = kFaults; fault-- > 0;) {
      if (has(wrong, fault)) expected = kOrder[fault];
    }
    EXPECT_EQ(binding.fault(), expected);
  }
}

}  // namespace
}  // namespace uroce::mem
