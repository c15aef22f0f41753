// What memory that is mapped for one direction allows: every kind of region over it, windows over
// those, and every operation. The expectations are the table below, written out once.
#include "mem/rights/rights.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>

#include "mem/regions/dma_region.h"
#include "mem/regions/fast_region.h"
#include "mem/regions/fmr.h"
#include "mem/regions/invalidation.h"
#include "mem/regions/physical_region.h"
#include "mem/regions/window.h"
#include "pages.h"

namespace uroce::mem {
namespace {

constexpr DomainId kOurs{1};
constexpr uint64_t kIova = 0x40000;

struct Right {
  const char* name;
  Access access;   // what is asked for when a region is made
  Access checked;  // what an operation is checked for
  bool to_device;  // memory of that direction allows it
  bool from_device;
};
constexpr Right kRightsOfRegions[] = {
    {"local read", Access{}, kLocalRead, true, false},
    {"local write", kLocalWrite, kLocalWrite, false, true},
    {"remote read", kRemoteRead, kRemoteRead, true, false},
    {"remote write", kLocalWrite | kRemoteWrite, kRemoteWrite, false, true},
    {"remote atomic", kLocalWrite | kRemoteAtomic, kRemoteAtomic, false, false},
};

constexpr Direction kDirections[] = {Direction::kBidirectional, Direction::kToDevice, Direction::kFromDevice};

bool allowed(const Right& right, Direction direction) {
  return direction == Direction::kBidirectional ||
         (direction == Direction::kToDevice ? right.to_device : right.from_device);
}

std::string name(const Right& right, Direction direction) {
  const char* const directions[] = {"bidirectional", "to device", "from device"};
  return std::string(right.name) + ", " + directions[static_cast<size_t>(direction)];
}

/// A region over one page, however it is made; or the errno.
class RightsTest : public testing::Test {
 protected:
  static constexpr RegionKind kKinds[] = {RegionKind::kDma, RegionKind::kPhysical, RegionKind::kMapped,
                                          RegionKind::kFast};

  struct Made {
    MemoryKey key;
    int error = 0;
    std::unique_ptr<PhysicalRegion> physical;
    std::unique_ptr<FastRegion> fast;
    std::unique_ptr<Fmr> fmr;
  };

  static Made refused(int error) {
    Made made;
    made.error = error;
    return made;
  }

  Made make(RegionKind kind, uint64_t page, Access access) {
    Made made;
    if (kind == RegionKind::kDma) {
      made.key = make_dma_region(table, kOurs, access).value();
    } else if (kind == RegionKind::kPhysical) {
      const BusRange run{page, kPage};
      auto region =
          PhysicalRegion::make(table, {&run, 1}, {.domain = kOurs, .access = access, .iova = kIova});
      if (!region) return refused(region.error().code);
      made.physical = std::move(*region);
      made.key = made.physical->key();
    } else if (kind == RegionKind::kMapped) {
      made.fmr = taken(Fmr::make(table, {.domain = kOurs, .access = access}));
      if (const Status status = made.fmr->map({&page, 1}, kIova); !status)
        return refused(status.error().code);
      made.key = made.fmr->key();
    } else {
      made.fast = taken(FastRegion::make(table, kOurs, 1));
      PageList list(bus, 1);
      list.addresses()[0] = page;
      if (const int error = list.post({.pages = 1, .page_shift = 12, .length = kPage}, access); error != 0)
        return refused(error);
      made.key = made.fast->first_key();
      EXPECT_EQ(
          bind_fast_region(
              table, {.region = made.key, .key = made.key, .access = access, .iova = kIova, .pages = &list},
              kOurs),
          Outcome::kDone);
    }
    return made;
  }
  bool may(MemoryKey key, RegionKind kind, uint64_t page, Access needed) const {
    return table.resolve(key, {kOurs, {}}, kind == RegionKind::kDma ? page : kIova, 8, needed).ok();
  }

  BusSpace bus{{}};
  RegionTable table{{.entries_max = 1024, .bus_space = &bus}};
};

TEST_F(RightsTest, KindsOverDirections_ExpectWhatTheTableSays) {
  for (const Direction direction : kDirections) {
    const Pages pages(bus, 1, direction);
    for (const RegionKind kind : kKinds) {
      for (const Right& right : kRightsOfRegions) {
        SCOPED_TRACE(name(right, direction) + ", kind " + std::to_string(static_cast<int>(kind)));
        const bool dma = kind == RegionKind::kDma;
        if (dma && !kLocalWrite.covers(right.access)) continue;  // such a region gives no more
        const Made made = make(kind, pages.addresses[0], right.access);
        if (!dma && !allowed(right, direction)) {
          EXPECT_EQ(made.error, kind == RegionKind::kFast ? EINVAL : EFAULT);
          continue;
        }
        ASSERT_EQ(made.error, 0);
        // Whatever was asked for: no operation reaches beyond what the direction allows.
        for (const Right& operation : kRightsOfRegions) {
          const bool granted = operation.checked == kLocalRead || right.access.covers(operation.checked);
          EXPECT_EQ(may(made.key, kind, pages.addresses[0], operation.checked),
                    granted && allowed(operation, direction))
              << operation.name;
        }
      }
    }
  }
}

TEST_F(RightsTest, WindowsOverRegionsOverDirections_ExpectWhatTheTableSays) {
  constexpr KeyUser kUser{.domain = kOurs, .queue_pair = {17}};
  for (const Direction direction : kDirections) {
    const Pages pages(bus, 1, direction);
    for (const RegionKind kind : {RegionKind::kPhysical, RegionKind::kFast}) {
      // As much as there is of rights that a window may be asked to go beyond.
      const Access local = direction == Direction::kToDevice ? Access{} : kLocalWrite;
      const Made made = make(kind, pages.addresses[0], local | kWindowBind);
      ASSERT_EQ(made.error, 0);
      for (const RegionKind type : {RegionKind::kWindow1, RegionKind::kWindow2A, RegionKind::kWindow2B}) {
        for (const Right& right : kRightsOfRegions) {
          const Access wanted = right.access & kWindowRights;
          if (wanted == Access{}) continue;
          SCOPED_TRACE(name(right, direction) + ", window " + std::to_string(static_cast<int>(type)));
          const auto window = taken(Window::make(table, kOurs, type));
          const Bound bound = bind_window(table,
                                          {.window = window->first_key(),
                                           .key = window->first_key(),
                                           .region = made.key,
                                           .access = wanted,
                                           .address = kIova,
                                           .length = kPage,
                                           .type1 = type == RegionKind::kWindow1},
                                          kUser);
          EXPECT_EQ(bound, allowed(right, direction) ? Bound::kDone : Bound::kRefused);
          EXPECT_EQ(table.resolve(window->first_key(), kUser, kIova, 8, right.checked).ok(),
                    allowed(right, direction));
          window->end();
        }
      }
    }
  }
}

}  // namespace
}  // namespace uroce::mem
