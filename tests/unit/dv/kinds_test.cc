// What can be done with every kind of region, in every state that it can be in, and with which rights: the
// tables here are the documentation. Each cell is tried, through both ends.
#include "kinds.h"

#include <array>
#include <cerrno>

#include "operations.h"

namespace uroce::verbs_test {
namespace {

using Operation = Outcome (*)(Parties&, Region&);

constexpr Operation kOperations[] = {
    local_read,       local_write,    remote_write, remote_read, send_invalidate,
    local_invalidate, register_again, bind,         end,         reregister};
constexpr const char* kNames[] = {"local read", "local write", "WRITE", "READ", "SEND with invalidate",
                                  "LOCAL_INV",  "REG_MR",      "bind",  "end",  "ibv_rereg_mr"};
static_assert(std::size(kOperations) == std::size(kNames));

enum class State {
  kLive,
  kCovered,  // a window is bound over it
  kUnbound,  // not mapped, not bound, or no more
  kEnded,
};
constexpr const char* kStates[] = {"live", "under a window", "unbound", "ended"};

using enum Kind;
using enum State;

struct Row {
  Kind kind;
  State state;
  std::array<Outcome, std::size(kOperations)> expected;
};

constexpr Outcome kEinval = failed(EINVAL);
constexpr Outcome kEbusy = failed(EBUSY);
constexpr Outcome kAbsent = failed(EOPNOTSUPP);

// With the best rights of the kind. "bind" is of a window over the region, or of the window itself.
// clang-format off
constexpr Row kTable[] = {
    // local read and write, the peer's WRITE, READ, SEND with invalidate, LOCAL_INV, REG_MR, bind, end, rereg
    {kUser,      kLive,    {kDone,  kDone, kDone, kDone, kKept, kDenied, kEinval, kDone,   kDone,  kDone}},
    {kZeroBased, kLive,    {kDone,  kDone, kDone, kDone, kKept, kDenied, kEinval, kDenied, kDone,  kDone}},
    {kDma,       kLive,    {kDone,  kDone, kNak,  kNak,  kKept, kDenied, kEinval, kDenied, kDone,  kEinval}},
    {kReserved,  kLive,    {kDone,  kDone, kNak,  kNak,  kKept, kDenied, kNone,   kNone,   kNone,  kNone}},
    {kPhysical,  kLive,    {kDone,  kDone, kDone, kDone, kKept, kDenied, kEinval, kDone,   kDone,  kEinval}},
    {kFmr,       kLive,    {kDone,  kDone, kDone, kDone, kKept, kDenied, kNone,   kNone,   kEbusy, kNone}},
    {kFast,      kLive,    {kDone,  kDone, kDone, kDone, kDone, kDone,   kDenied, kDone,   kDone,  kEinval}},
    {kWindow1,   kLive,    {kLocal, kRecv, kDone, kDone, kKept, kDenied, kNone,   kDone,   kDone,  kNone}},
    {kWindow2A,  kLive,    {kLocal, kRecv, kDone, kDone, kDone, kDone,   kNone,   kDenied, kDone,  kNone}},
    {kWindow2B,  kLive,    {kLocal, kRecv, kDone, kDone, kDone, kDone,   kNone,   kDenied, kDone,  kNone}},

    {kUser,      kCovered, {kDone,  kDone, kDone, kDone, kKept, kDenied, kEinval, kDone,   kEbusy, kEbusy}},
    {kPhysical,  kCovered, {kDone,  kDone, kDone, kDone, kKept, kDenied, kEinval, kDone,   kEbusy, kEinval}},
    {kFast,      kCovered, {kDone,  kDone, kDone, kDone, kKept, kDenied, kDenied, kDone,   kEbusy, kEinval}},

    {kFmr,       kUnbound, {kLocal, kRecv, kNak,  kNak,  kKept, kDenied, kNone,   kNone,   kDone,  kNone}},
    {kFast,      kUnbound, {kLocal, kRecv, kNak,  kNak,  kDone, kDone,   kDone,   kDenied, kDone,  kEinval}},
    {kWindow1,   kUnbound, {kLocal, kRecv, kNak,  kNak,  kKept, kDenied, kNone,   kDone,   kDone,  kNone}},
    {kWindow2A,  kUnbound, {kLocal, kRecv, kNak,  kNak,  kDone, kDone,   kNone,   kDone,   kDone,  kNone}},
    {kWindow2B,  kUnbound, {kLocal, kRecv, kNak,  kNak,  kDone, kDone,   kNone,   kDone,   kDone,  kNone}},

    {kUser,      kEnded,   {kLocal, kRecv, kNak,  kNak,  kKept, kDenied, kNone,   kNone,   kNone,  kNone}},
    {kZeroBased, kEnded,   {kLocal, kRecv, kNak,  kNak,  kKept, kDenied, kNone,   kNone,   kNone,  kNone}},
    {kDma,       kEnded,   {kLocal, kRecv, kNak,  kNak,  kKept, kDenied, kNone,   kNone,   kNone,  kNone}},
    {kPhysical,  kEnded,   {kLocal, kRecv, kNak,  kNak,  kKept, kDenied, kNone,   kNone,   kNone,  kNone}},
    {kFmr,       kEnded,   {kLocal, kRecv, kNak,  kNak,  kKept, kDenied, kNone,   kNone,   kNone,  kNone}},
    {kFast,      kEnded,   {kLocal, kRecv, kNak,  kNak,  kKept, kDenied, kNone,   kNone,   kNone,  kNone}},
    {kWindow1,   kEnded,   {kLocal, kRecv, kNak,  kNak,  kKept, kDenied, kNone,   kNone,   kNone,  kNone}},
    {kWindow2A,  kEnded,   {kLocal, kRecv, kNak,  kNak,  kKept, kDenied, kNone,   kNone,   kNone,  kNone}},
    {kWindow2B,  kEnded,   {kLocal, kRecv, kNak,  kNak,  kKept, kDenied, kNone,   kNone,   kNone,  kNone}},
};
// clang-format on

void try_cell(Parties& parties, const Row& row, size_t operation, Kind over) {
  Region region = parties.make(row.kind, best_rights(row.kind), over);
  ASSERT_EQ(region.made, kDone);
  ibv_mw* window = nullptr;
  if (row.state == kCovered) {
    window = urocedv_alloc_mw(parties.owner.pd, UROCEDV_MW_TYPE_1);
    ASSERT_EQ(parties.bind_window(
                  window, {.mr = region.mr, .addr = region.address + 10, .length = 5, .mw_access_flags = 0}),
              kDone);
  }
  const bool maps = row.kind == kFmr;
  if (row.state == kUnbound || (row.state == kEnded && maps)) parties.unbind(region);
  if (row.state == kEnded) {
    ASSERT_EQ(parties.end(region), 0);
  }
  const Outcome outcome = kOperations[operation](parties, region);
  EXPECT_EQ(outcome, row.expected[operation]);
  // What was refused has changed nothing.
  if (outcome != kDone && region.rkey != 0) {
    EXPECT_EQ(remote_read(parties, region), row.expected[3]) << "afterwards";
  }
  if (window != nullptr) {
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
  }
  parties.release(region);
}

TEST(Kinds, EveryOperationInEveryState) {
  Parties parties;
  for (const Row& row : kTable) {
    for (size_t i = 0; i < std::size(kOperations); ++i) {
      for (const Kind over : {kUser, kPhysical, kFast}) {
        if (over != kUser && !is_window(row.kind)) continue;
        SCOPED_TRACE(std::string(name(row.kind)) + ", " + kStates[static_cast<size_t>(row.state)] + ": " +
                     kNames[i] + (is_window(row.kind) ? std::string(", over ") + name(over) : ""));
        try_cell(parties, row, i, over);
      }
    }
  }
}

/// What rights give, to every kind that takes them. (DMA regions take none but local write: dma_test.cc.)
struct Rights {
  int access;
  // Making it, as in the order below.
  std::array<Outcome, 6> made;
  std::array<Outcome, 4> gives;  // local read, local write, WRITE, READ; to windows nothing locally
  Outcome window = kDenied;      // over it, for READ
};
constexpr Kind kMakers[] = {kUser, kPhysical, kFmr, kFast, kWindow1, kWindow2B};

constexpr int kHome = IBV_ACCESS_LOCAL_WRITE;
constexpr int kWrite = IBV_ACCESS_REMOTE_WRITE;
constexpr int kRead = IBV_ACCESS_REMOTE_READ;
constexpr int kAtomic = IBV_ACCESS_REMOTE_ATOMIC;
constexpr int kBind = IBV_ACCESS_MW_BIND;
constexpr int kAll = kAllRights;
constexpr int kFromZero = IBV_ACCESS_ZERO_BASED;
constexpr int kHugepages = IBV_ACCESS_HUGETLB;
constexpr int kRelaxed = IBV_ACCESS_RELAXED_ORDERING;
constexpr int kOnDemand = IBV_ACCESS_ON_DEMAND;
constexpr int kFlush = UROCEDV_ACCESS_FLUSH_GLOBAL;
constexpr int kPersistent = UROCEDV_ACCESS_FLUSH_PERSISTENT;
constexpr int kUnknown = 1 << 15;

// clang-format off
constexpr Rights kRights[] = {
    // user, physical, FMR, fast, window of type 1, of type 2; local read and write, WRITE, READ; window over it
    {0,               {kDone,   kDone,   kDone,   kDone,   kDone,   kDone},   {kDone, kRecv, kNak,  kNak}},
    {kHome,           {kDone,   kDone,   kDone,   kDone,   kDone,   kDone},   {kDone, kDone, kNak,  kNak}},
    {kRead,           {kDone,   kDone,   kDone,   kDone,   kDone,   kDone},   {kDone, kRecv, kNak,  kDone}},
    {kHome | kWrite,  {kDone,   kDone,   kDone,   kDone,   kDone,   kDone},   {kDone, kDone, kDone, kNak}},
    {kHome | kRead,   {kDone,   kDone,   kDone,   kDone,   kDone,   kDone},   {kDone, kDone, kNak,  kDone}},
    {kAll,            {kDone,   kDone,   kDone,   kDone,   kDone,   kDone},   {kDone, kDone, kDone, kDone}},
    {kHome | kAtomic, {kDone,   kDone,   kDone,   kDone,   kDone,   kDone},   {kDone, kDone, kNak,  kNak}},
    {kBind,           {kDone,   kDone,   kEinval, kDone,   kDenied, kDenied}, {kDone, kRecv, kNak,  kNak},  kDone},
    {kAll | kBind,    {kDone,   kDone,   kEinval, kDone,   kDenied, kDenied}, {kDone, kDone, kDone, kDone}, kDone},
    // The right to write from far needs that to write at home, but for windows, which are never for home: there
    // it is as good as not given.
    {kWrite,          {kEinval, kEinval, kEinval, kEinval, kDone,   kDone},   {kDone, kRecv, kDone, kNak}},
    {kWrite | kRead,  {kEinval, kEinval, kEinval, kEinval, kDone,   kDone},   {kDone, kRecv, kDone, kDone}},
    {kAtomic,         {kEinval, kEinval, kEinval, kEinval, kDone,   kDone},   {kDone, kRecv, kNak,  kNak}},
    {kFromZero,       {kDone,   kDone,   kEinval, kEinval, kDenied, kDone},   {kDone, kRecv, kNak,  kNak}},
    // A hint, and one that may be ignored.
    {kHugepages,      {kDone,   kDone,   kDone,   kDone,   kDenied, kDenied}, {kDone, kRecv, kNak,  kNak}},
    {kRelaxed,        {kDone,   kDone,   kDone,   kDone,   kDenied, kDenied}, {kDone, kRecv, kNak,  kNak}},
    {kOnDemand,       {kAbsent, kAbsent, kAbsent, kAbsent, kDenied, kDenied}, {}},
    {kFlush,          {kDone,   kDone,   kDone,   kDone,   kDenied, kDenied}, {kDone, kRecv, kNak,  kNak}},
    {kPersistent,     {kAbsent, kAbsent, kAbsent, kAbsent, kDenied, kDenied}, {}},
    {kUnknown,        {kEinval, kEinval, kEinval, kEinval, kDenied, kDenied}, {}},
};
// clang-format on

TEST(Kinds, EveryRight) {
  Parties parties;
  for (const Rights& rights : kRights) {
    for (size_t maker = 0; maker < std::size(kMakers); ++maker) {
      const Kind kind = kMakers[maker];
      SCOPED_TRACE(std::string(name(kind)) + " with rights " + std::to_string(rights.access));
      Region region = parties.make(kind, rights.access);
      EXPECT_EQ(region.made, rights.made[maker]);
      for (size_t i = 0; i < rights.gives.size() && region.made == kDone; ++i) {
        const Outcome expected = !is_window(kind) || i >= 2 ? rights.gives[i] : i == 0 ? kLocal : kRecv;
        EXPECT_EQ(kOperations[i](parties, region), expected) << kNames[i];
      }
      if (region.made == kDone && region.mr != nullptr) {
        EXPECT_EQ(bind(parties, region), rights.window) << "a window over it";
      }
      if (region.made.own != IBV_WC_SUCCESS) parties.reconnect();
      parties.release(region);
    }
  }
}

}  // namespace
}  // namespace uroce::verbs_test
