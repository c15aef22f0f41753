#include "kinds.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace uroce::verbs_test {
namespace {

constexpr uint64_t kIova = 0x5000000000;
constexpr std::array<size_t, kRegionPages> kOrder = {6, 1, 4, 3};

uint32_t reserved_lkey(ibv_context* context) {
  urocedv_device_attr attributes{};
  EXPECT_EQ(urocedv_query_device(context, &attributes), 0);
  return attributes.reserved_lkey;
}

}  // namespace

const char* name(Kind kind) {
  static constexpr const char* kNames[] = {"user", "zero-based", "DMA",      "reserved L_Key", "physical",
                                           "FMR",  "fast",       "window 1", "window 2A",      "window 2B"};
  return kNames[static_cast<size_t>(kind)];
}

int best_rights(Kind kind) {
  switch (kind) {
    case Kind::kDma:
    case Kind::kReserved:
      return IBV_ACCESS_LOCAL_WRITE;
    case Kind::kFmr:
    case Kind::kZeroBased:
      return kAllRights;
    case Kind::kUser:
    case Kind::kPhysical:
    case Kind::kFast:
      return kAllRights | IBV_ACCESS_MW_BIND;
    default:
      return IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  }
}

std::ostream& operator<<(std::ostream& to, const Outcome& outcome) {
  if (outcome.error == kNoCall) return to << "no such call";
  if (outcome.error != 0) return to << strerror(outcome.error);
  return to << "owner: " << ibv_wc_status_str(outcome.own) << ", peer: " << ibv_wc_status_str(outcome.peer);
}

ibv_qp* create_able(ibv_pd* pd, ibv_qp_init_attr* initial) {
  ibv_qp_init_attr_ex wanted{};
  std::memcpy(static_cast<void*>(&wanted), initial, sizeof(*initial));
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.pd = pd;
  wanted.send_ops_flags = IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_RDMA_READ;
  urocedv_qp_init_attr more{};
  more.create_flags = UROCEDV_QP_CREATE_RESERVED_LKEY;
  return urocedv_create_qp(pd->context, &wanted, &more);
}

Parties::Parties()
    : peer(device_at(0), {.signal_all = true}),
      owner(device_at(1), {.segments = 16, .signal_all = true, .create_qp = create_able}),
      list_(urocedv_alloc_page_list(owner.context, kRegionPages)) {
  map_arena();
  connect(peer, owner);
}

Parties::~Parties() {
  EXPECT_EQ(urocedv_free_page_list(list_), 0);
  EXPECT_EQ(unmap_arena(), 0);
}

void Parties::map_arena() {
  bus_ = urocedv_dma_map_single(owner.context, page(0), kArenaBytes, UROCEDV_DMA_BIDIRECTIONAL);
  EXPECT_EQ(urocedv_dma_mapping_error(owner.context, bus_), 0);
  for (size_t i = 0; i < kRegionPages; ++i) list_->pages[i] = bus_ + kOrder[i] * kPageBytes;
}

int Parties::unmap_arena() const {
  return urocedv_dma_unmap_single(owner.context, bus_, kArenaBytes, UROCEDV_DMA_BIDIRECTIONAL);
}

void Parties::fill_arena(uint8_t seed) const {
  for (size_t i = 0; i < kArenaBytes; ++i) page(0)[i] = static_cast<uint8_t>(seed + i * 7 + i / 256);
}

void Parties::reconnect() const {
  for (const End* end : {&owner, &peer}) {
    ibv_qp_attr reset{};
    reset.qp_state = IBV_QPS_RESET;
    ASSERT_EQ(ibv_modify_qp(end->qp, &reset, IBV_QP_STATE), 0);
    while (!end->nothing_to_poll()) {
    }
  }
  connect(peer, owner);
}

Region Parties::make(Kind kind, int access, Kind over) {
  Region region{.kind = kind, .address = kIova, .parent = nullptr, .pages = {}};
  const bool from_zero = (access & IBV_ACCESS_ZERO_BASED) != 0;
  const bool listed = kind == Kind::kPhysical || kind == Kind::kFmr || kind == Kind::kFast;
  for (size_t i = 0; i < kRegionPages; ++i) region.pages.push_back(page(listed ? kOrder[i] : 2 + i));
  std::vector<urocedv_phys_buf> runs;
  for (size_t i = 0; i < kRegionPages; ++i) runs.push_back({list_->pages[i], kPageBytes});
  errno = 0;
  switch (kind) {
    case Kind::kUser:
      region.mr = ibv_reg_mr(owner.pd, region.pages[0], kRegionBytes, access);
      region.address = from_zero ? 0 : reinterpret_cast<uintptr_t>(region.pages[0]);
      break;
    case Kind::kZeroBased:
      return make(Kind::kUser, access | IBV_ACCESS_ZERO_BASED);
    case Kind::kDma:
      region.mr = urocedv_get_dma_mr(owner.pd, access);
      region.address = bus_ + 2 * kPageBytes;
      break;
    case Kind::kReserved:
      region.lkey = region.rkey = reserved_lkey(owner.context);
      region.address = bus_ + 2 * kPageBytes;
      return region;
    case Kind::kPhysical:
      region.mr = urocedv_reg_phys_mr(owner.pd, runs.data(), kRegionPages, access, kIova);
      if (from_zero) region.address = 0;
      break;
    case Kind::kFmr:
      make_fmr(region, access);
      return region;
    case Kind::kFast:
      region.mr = urocedv_alloc_mr(owner.pd, UROCEDV_MR_TYPE_MEM_REG, kRegionPages);
      region.made = register_fast(region, access, 1);
      return region;
    default:
      make_window(region, access, over);
      return region;
  }
  if (region.mr == nullptr) {
    region.made.error = errno;
  } else {
    region.lkey = region.mr->lkey;
    region.rkey = region.mr->rkey;
  }
  return region;
}

void Parties::make_fmr(Region& region, int access) {
  const urocedv_fmr_attr attributes{.max_pages = kRegionPages, .max_maps = 8, .page_shift = 12};
  region.fmr = urocedv_alloc_fmr(owner.pd, access, &attributes);
  region.made.error = region.fmr == nullptr
                          ? errno
                          : urocedv_map_phys_fmr(region.fmr, list_->pages, kRegionPages, region.address);
  if (region.fmr != nullptr) region.lkey = region.fmr->lkey;
  region.rkey = region.lkey;
}

void Parties::make_window(Region& region, int access, Kind over) {
  constexpr int kParent = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
  region.parent = std::make_unique<Region>(make(over, kParent));
  const auto type = static_cast<urocedv_mw_type>(UROCEDV_MW_TYPE_1 + static_cast<int>(region.kind) -
                                                 static_cast<int>(Kind::kWindow1));
  region.window = urocedv_alloc_mw(owner.pd, type);
  region.address = region.parent->address;
  const uint64_t begin = region.address;
  if ((access & IBV_ACCESS_ZERO_BASED) != 0) region.address = 0;
  region.pages = region.parent->pages;
  // That of code that takes it for a region; it has none.
  region.made = bind_window(region.window, {.mr = region.parent->mr,
                                            .addr = begin,
                                            .length = kRegionBytes,
                                            .mw_access_flags = static_cast<unsigned>(access)});
  region.lkey = region.rkey = region.window->rkey;
}

Outcome Parties::register_fast(Region& region, int access, uint8_t key) {
  urocedv_reg_mr_attr attr{};
  attr.iova = kIova;
  attr.key = (region.mr->rkey & 0xFFFFFF00u) | key;
  attr.access = access;
  attr.page_list = list_;
  attr.length = kRegionBytes;
  attr.pages = kRegionPages;
  attr.page_shift = 12;
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(owner.qp);
  ibv_wr_start(qp);
  urocedv_wr_reg_mr(qp, region.mr, &attr);
  if (const int error = ibv_wr_complete(qp); error != 0) return {.error = error};
  const Outcome outcome{.own = owner.next().status};
  if (outcome == Outcome{}) {
    urocedv_update_key(region.mr, key);
    region.lkey = region.rkey = region.mr->rkey;
    region.address = kIova;
  }
  return outcome;
}

Outcome Parties::bind_window(ibv_mw* window, const ibv_mw_bind_info& info) {
  if (window->type == IBV_MW_TYPE_1) {
    ibv_mw_bind bind{.wr_id = 0, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
    if (const int error = ibv_bind_mw(owner.qp, window, &bind); error != 0) return {.error = error};
    return {.own = owner.next().status};
  }
  ibv_send_wr request{};
  request.opcode = IBV_WR_BIND_MW;
  request.bind_mw = {.mw = window, .rkey = ibv_inc_rkey(window->rkey), .bind_info = info};
  if (const int error = owner.send(request); error != 0) return {.error = error};
  const Outcome outcome{.own = owner.next().status};
  if (outcome == Outcome{}) window->rkey = request.bind_mw.rkey;
  return outcome;
}

Outcome Parties::local_invalidate(uint32_t key) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_LOCAL_INV;
  request.invalidate_rkey = key;
  if (const int error = owner.send(request); error != 0) return {.error = error};
  return {.own = owner.next().status};
}

void Parties::unbind(Region& region) {
  switch (region.kind) {
    case Kind::kFmr:
      EXPECT_EQ(urocedv_unmap_fmr(&region.fmr, 1), 0);
      break;
    case Kind::kWindow1:
      EXPECT_EQ(bind_window(region.window, {}), Outcome{});
      region.lkey = region.rkey = region.window->rkey;
      break;
    default:
      EXPECT_EQ(local_invalidate(region.rkey), Outcome{}) << name(region.kind);
  }
}

int Parties::end(Region& region) {
  int error = kNoCall;
  if (region.window != nullptr) {
    error = ibv_dealloc_mw(region.window);
    if (error == 0) region.window = nullptr;
  } else if (region.fmr != nullptr) {
    error = urocedv_dealloc_fmr(region.fmr);
    if (error == 0) region.fmr = nullptr;
  } else if (region.mr != nullptr) {
    error = ibv_dereg_mr(region.mr);
    if (error == 0) region.mr = nullptr;
  }
  return error;
}

void Parties::release(Region& region) {
  if (region.fmr != nullptr) {
    EXPECT_EQ(urocedv_unmap_fmr(&region.fmr, 1), 0);
  }
  EXPECT_LE(end(region), 0) << name(region.kind);
  if (region.parent != nullptr) release(*std::exchange(region.parent, nullptr));
}

}  // namespace uroce::verbs_test
