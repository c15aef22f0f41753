// What a program can do wrong with its memory, in one table: each line is tried and must be refused as it
// says, by the errno of the call or by a completion, and nothing may be left of it.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "kinds.h"
#include "operations.h"

namespace uroce::verbs_test {
namespace {

using enum Kind;

constexpr Outcome kEinval = failed(EINVAL);
constexpr Outcome kEfault = failed(EFAULT);
constexpr Outcome kEbusy = failed(EBUSY);
constexpr uint64_t kIova = 0x7000000000;

// How each thing is tried. What it makes against expectation is ended again.

Outcome register_user(Parties& parties, void* address, size_t length, int access, uint64_t iova) {
  errno = 0;
  ibv_mr* mr = ibv_reg_mr_iova2(parties.owner.pd, address, length, iova, static_cast<unsigned>(access));
  return mr == nullptr ? failed(errno) : Outcome{.error = ibv_dereg_mr(mr)};
}

Outcome register_user(Parties& parties, size_t length, int access) {
  return register_user(parties, parties.page(0), length, access, kIova);
}

Outcome register_physical(Parties& parties, std::vector<urocedv_phys_buf> runs, int access,
                          uint64_t iova = kIova) {
  errno = 0;
  ibv_mr* mr =
      urocedv_reg_phys_mr(parties.owner.pd, runs.data(), static_cast<int>(runs.size()), access, iova);
  return mr == nullptr ? failed(errno) : Outcome{.error = ibv_dereg_mr(mr)};
}

Outcome map_fmr(Parties& parties, std::vector<uint64_t> pages, uint64_t iova = kIova, int times = 1) {
  const urocedv_fmr_attr attributes{.max_pages = 2, .max_maps = 2, .page_shift = 12};
  urocedv_fmr* fmr = urocedv_alloc_fmr(parties.owner.pd, kAllRights, &attributes);
  int error = 0;
  for (int i = 0; i < times && error == 0; ++i)
    error = urocedv_map_phys_fmr(fmr, pages.data(), static_cast<int>(pages.size()), iova);
  EXPECT_EQ(urocedv_unmap_fmr(&fmr, 1), 0);
  EXPECT_EQ(urocedv_dealloc_fmr(fmr), 0);
  return failed(error);
}

/// REG_MR of a region for two pages.
Outcome register_fast(Parties& parties, std::vector<uint64_t> pages, uint64_t offset, uint64_t length,
                      uint32_t key_change = 0) {
  ibv_mr* mr = urocedv_alloc_mr(parties.owner.pd, UROCEDV_MR_TYPE_MEM_REG, 2);
  urocedv_page_list* list = urocedv_alloc_page_list(parties.owner.context, 8);
  std::copy(pages.begin(), pages.end(), list->pages);
  urocedv_reg_mr_attr attr{};
  attr.iova = kIova;
  attr.key = mr->rkey ^ key_change;
  attr.access = kAllRights;
  attr.page_list = list;
  attr.offset = offset;
  attr.length = length;
  attr.pages = static_cast<uint32_t>(pages.size());
  attr.page_shift = 12;
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(parties.owner.qp);
  ibv_wr_start(qp);
  urocedv_wr_reg_mr(qp, mr, &attr);
  Outcome outcome{.error = ibv_wr_complete(qp)};
  if (outcome.error == 0) outcome.own = parties.owner.next().status;
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(urocedv_free_page_list(list), 0);
  return outcome;
}

/// With a live region of the kind.
template <typename Try>
Outcome with(Parties& parties, Kind kind, Try tried, Kind over = kUser) {
  Region region = parties.make(kind, best_rights(kind), over);
  EXPECT_EQ(region.made, kDone);
  const Outcome outcome = tried(region);
  if (outcome.own != IBV_WC_SUCCESS) parties.reconnect();
  parties.release(region);
  return outcome;
}

Outcome unmap_under(Parties& parties, Kind kind, Kind over = kUser) {
  return with(
      parties, kind,
      [&](Region&) {
        const int error = parties.unmap_arena();
        if (error == 0) parties.map_arena();
        return failed(error);
      },
      over);
}

/// Of another domain of the same device, live.
template <typename Try>
Outcome with_foreign(Parties& parties, Kind kind, Try tried) {
  Parties others;
  Region region = others.make(kind, best_rights(kind));
  EXPECT_EQ(region.made, kDone);
  const Outcome outcome = tried(parties, region);
  EXPECT_EQ(remote_read(others, region), kind == kDma ? kNak : kDone) << "it is as it was";
  others.release(region);
  return outcome;
}

Outcome bind_to_foreign(Parties& parties) {
  ibv_pd* domain = ibv_alloc_pd(parties.owner.context);
  ibv_mr* mr = ibv_reg_mr(domain, parties.page(0), kRegionBytes, kAllRights | IBV_ACCESS_MW_BIND);
  ibv_mw* window = urocedv_alloc_mw(parties.owner.pd, UROCEDV_MW_TYPE_2A);
  const Outcome outcome = parties.bind_window(window, {.mr = mr,
                                                       .addr = reinterpret_cast<uintptr_t>(parties.page(0)),
                                                       .length = 1,
                                                       .mw_access_flags = IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(ibv_dealloc_pd(domain), EBUSY);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
  return outcome;
}

Outcome bind_part(Parties& parties, uint64_t skip, uint64_t length) {
  return with(parties, kUser, [&](Region& region) {
    ibv_mw* window = urocedv_alloc_mw(parties.owner.pd, UROCEDV_MW_TYPE_2B);
    const Outcome outcome = parties.bind_window(window, {.mr = region.mr,
                                                         .addr = region.address + skip,
                                                         .length = length,
                                                         .mw_access_flags = IBV_ACCESS_REMOTE_READ});
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
    return outcome;
  });
}

struct Row {
  const char* what;
  Outcome expected;
  Outcome (*tried)(Parties& parties);
};

// (The rights that each kind refuses are in kinds_test.cc.)
const Row kTable[] = {
    // Length 0 or overflow. (Of no bytes there are user regions: ibv_reg_mr(3) refuses nothing of the kind.)
    {"a user region of nothing", kDone, [](auto& p) { return register_user(p, 0, kAllRights); }},
    {"that wraps", kEinval, [](auto& p) { return register_user(p, SIZE_MAX, kAllRights); }},
    {"whose addresses wrap", kEinval,
     [](auto& p) { return register_user(p, p.page(0), kPageBytes, kAllRights, UINT64_MAX - 5); }},
    {"that ends where addresses end", kDone,
     [](auto& p) { return register_user(p, p.page(0), kPageBytes, kAllRights, 0 - kPageBytes); }},
    {"of memory that is not there", kEfault,
     [](auto& p) { return register_user(p, reinterpret_cast<void*>(kPageBytes), 1, 0, kIova); }},
    {"a physical region of nothing", kEinval, [](auto& p) { return register_physical(p, {}, 0); }},
    {"with a run of nothing", kEinval,
     [](auto& p) {
       return register_physical(p, {{p.bus(), 0}}, 0);
     }},
    {"that wraps", kEinval,
     [](auto& p) {
       return register_physical(p, {{p.bus(), kPageBytes}}, 0, UINT64_MAX - 5);
     }},
    {"a run beyond its mapping", kEfault,
     [](auto& p) {
       return register_physical(p, {{p.bus() + 1, Parties::kArenaBytes}}, 0);
     }},
    {"an address of the process", kEfault,
     [](auto& p) {
       return register_physical(p, {{reinterpret_cast<uintptr_t>(p.page(0)), 1}}, 0);
     }},
    {"an FMR to nothing", kEinval, [](auto& p) { return map_fmr(p, {}); }},
    {"REG_MR of nothing", kEinval, [](auto& p) { return register_fast(p, {p.bus()}, 0, 0); }},
    {"beyond its pages", kEinval, [](auto& p) { return register_fast(p, {p.bus()}, 1, kPageBytes); }},
    {"of a length that overflows", kEinval,
     [](auto& p) { return register_fast(p, {p.bus()}, 1, UINT64_MAX); }},
    {"a window of nothing", kDenied, [](auto& p) { return bind_part(p, 0, 0); }},
    {"beyond its region", kDenied, [](auto& p) { return bind_part(p, 1, kRegionBytes); }},
    {"before its region", kDenied, [](auto& p) { return bind_part(p, UINT64_MAX, 1); }},
    {"of a length that overflows", kDenied, [](auto& p) { return bind_part(p, 1, UINT64_MAX); }},
    {"a mapping of nothing", kEinval,
     [](auto& p) {
       errno = 0;
       EXPECT_EQ(urocedv_dma_map_single(p.owner.context, p.page(0), 0, UROCEDV_DMA_TO_DEVICE),
                 UROCEDV_DMA_ERROR);
       return failed(errno);
     }},

    // Page lists.
    {"REG_MR of a page that is none", kEinval,
     [](auto& p) { return register_fast(p, {p.bus() + 8}, 0, kPageBytes); }},
    {"of a page that is not mapped", kEinval,
     [](auto& p) { return register_fast(p, {p.bus() + Parties::kArenaBytes}, 0, 1); }},
    {"of too many pages", kEinval,
     [](auto& p) { return register_fast(p, std::vector<uint64_t>(3, p.bus()), 0, 1); }},
    {"an FMR to a page that is none", kEinval, [](auto& p) { return map_fmr(p, {p.bus() + 8}); }},
    {"at an address that is no page's", kEinval, [](auto& p) { return map_fmr(p, {p.bus()}, kIova + 8); }},
    {"to a page that is not mapped", kEfault,
     [](auto& p) { return map_fmr(p, {p.bus() + Parties::kArenaBytes}); }},
    {"to too many pages", kEinval, [](auto& p) { return map_fmr(p, std::vector<uint64_t>(3, p.bus())); }},
    {"a region of too many pages", kEinval,
     [](auto& p) {
       errno = 0;
       EXPECT_EQ(urocedv_alloc_mr(p.owner.pd, UROCEDV_MR_TYPE_MEM_REG, UINT32_MAX), nullptr);
       return failed(errno);
     }},

    // Twice. (What was freed cannot be named any more, but a key and a bus address can.)
    {"LOCAL_INV twice", kDone,
     [](auto& p) {
       return with(p, kFast, [&](Region& region) {
         EXPECT_EQ(p.local_invalidate(region.rkey), kDone);
         return p.local_invalidate(region.rkey);
       });
     }},
    {"of a window, twice", kDone,
     [](auto& p) {
       return with(p, kWindow2B, [&](Region& region) {
         EXPECT_EQ(p.local_invalidate(region.rkey), kDone);
         return p.local_invalidate(region.rkey);
       });
     }},
    {"an FMR unmapped twice", kDone,
     [](auto& p) {
       return with(p, kFmr, [](Region& region) {
         EXPECT_EQ(urocedv_unmap_fmr(&region.fmr, 1), 0);
         return failed(urocedv_unmap_fmr(&region.fmr, 1));
       });
     }},
    {"unmapping twice", kEinval,
     [](auto& p) {
       EXPECT_EQ(p.unmap_arena(), 0);
       const Outcome outcome = failed(p.unmap_arena());
       p.map_arena();
       return outcome;
     }},

    // What is still needed. (Regions under windows: kinds_test.cc.)
    {"unmapping under a user region", kDone, [](auto& p) { return unmap_under(p, kUser); }},
    {"under a DMA region", kDone, [](auto& p) { return unmap_under(p, kDma); }},
    {"under a physical region", kEbusy, [](auto& p) { return unmap_under(p, kPhysical); }},
    {"under an FMR", kEbusy, [](auto& p) { return unmap_under(p, kFmr); }},
    {"under a fast registration", kEbusy, [](auto& p) { return unmap_under(p, kFast); }},
    {"under a window over it", kEbusy, [](auto& p) { return unmap_under(p, kWindow1, kPhysical); }},
    {"an FMR's end while it is mapped", kEbusy,
     [](auto& p) {
       return with(p, kFmr, [](Region& region) { return failed(urocedv_dealloc_fmr(region.fmr)); });
     }},
    {"a domain's end with a region in it", kEbusy,
     [](auto& p) { return with(p, kDma, [&](Region&) { return failed(ibv_dealloc_pd(p.owner.pd)); }); }},
    {"with a window in it", kEbusy,
     [](auto& p) { return with(p, kWindow2A, [&](Region&) { return failed(ibv_dealloc_pd(p.owner.pd)); }); }},

    // In the wrong state.
    {"an FMR mapped too often", failed(EAGAIN), [](auto& p) { return map_fmr(p, {p.bus()}, kIova, 3); }},
    {"REG_MR while bound", kDenied,
     [](auto& p) {
       return with(p, kFast, [&](Region& region) { return p.register_fast(region, kAllRights, 9); });
     }},
    {"under a key of another index", kDenied,
     [](auto& p) { return register_fast(p, {p.bus()}, 0, 1, 0x100); }},

    // Others' keys and wrong kinds. (All kinds: kinds_test.cc.)
    {"LOCAL_INV of another domain's key", kDenied,
     [](auto& p) {
       return with_foreign(p, kFast,
                           [](Parties& own, Region& region) { return own.local_invalidate(region.rkey); });
     }},
    {"of another domain's window", kDenied,
     [](auto& p) {
       return with_foreign(p, kWindow2A,
                           [](Parties& own, Region& region) { return own.local_invalidate(region.rkey); });
     }},
    {"of a user region", kDenied,
     [](auto& p) { return with(p, kUser, [&](Region& r) { return p.local_invalidate(r.rkey); }); }},
    {"of the reserved L_Key", kDenied,
     [](auto& p) { return with(p, kReserved, [&](Region& r) { return p.local_invalidate(r.rkey); }); }},
    {"of no key", kDenied, [](auto& p) { return p.local_invalidate(0); }},
    {"a peer's of another domain's key", kKept,
     [](auto& p) { return with_foreign(p, kFast, send_invalidate); }},
    {"a window over another domain's region", kDenied, bind_to_foreign},
    {"another domain's key, to read from", kLocal,
     [](auto& p) { return with_foreign(p, kUser, local_read); }},
    {"to receive at", kRecv, [](auto& p) { return with_foreign(p, kUser, local_write); }},
    {"for a peer's WRITE", kNak, [](auto& p) { return with_foreign(p, kPhysical, remote_write); }},
    {"for a peer's READ", kNak, [](auto& p) { return with_foreign(p, kWindow2A, remote_read); }},
    {"a DMA region's, to read from", kLocal, [](auto& p) { return with_foreign(p, kDma, local_read); }},
};

TEST(Refusals, OfEachMistake) {
  Parties parties;
  for (const Row& row : kTable) {
    SCOPED_TRACE(row.what);
    const Outcome outcome = row.tried(parties);
    EXPECT_EQ(outcome, row.expected);
    // A completion with an error costs the connection; else it goes on.
    if (outcome.own != IBV_WC_SUCCESS) parties.reconnect();
    // Nothing is left: neither a pin nor a use of the domain.
    EXPECT_EQ(parties.unmap_arena(), 0);
    parties.map_arena();
    Region region = parties.make(kPhysical, kAllRights);
    EXPECT_EQ(remote_write(parties, region), kDone);
    parties.release(region);
  }
}

}  // namespace
}  // namespace uroce::verbs_test
