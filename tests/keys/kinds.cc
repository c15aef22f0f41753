#include "tests/keys/kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "client/failure.h"

namespace uroce::keys {
namespace {

constexpr uint64_t kIova = uint64_t{3} << 40;
constexpr uint32_t kPageShift = 12;

template <typename T>
T* made(T* object, const char* call) {
  if (object == nullptr) throw client::failed(call, errno);
  return object;
}

void expect_success(const ibv_wc& completion, const char* what) {
  if (completion.status != IBV_WC_SUCCESS) {
    throw client::Failure(fmt::format("{}: {}", what, ibv_wc_status_str(completion.status)));
  }
}

/// Scattered, so that no two neighbours in the region are neighbours in memory.
std::vector<std::span<std::byte>> pages(Arena& arena, std::initializer_list<size_t> numbers) {
  std::vector<std::span<std::byte>> pieces;
  for (const size_t number : numbers) pieces.push_back(arena.piece(number, 0, Arena::kPage));
  return pieces;
}

std::vector<uint64_t> bus_addresses(const Arena& arena, const std::vector<std::span<std::byte>>& pieces) {
  std::vector<uint64_t> list;
  for (const auto& piece : pieces) list.push_back(arena.bus_address(piece));
  return list;
}

/// Of memory in one piece that ends with ibv_dereg_mr; the piece is told as two, so that there is a border.
Region deregistered(ibv_mr* mr, uint64_t address, std::span<std::byte> memory, size_t border) {
  const auto owned = std::make_shared<ibv_mr*>(mr);
  const auto dereg = [owned] {
    if (*owned != nullptr) check(ibv_dereg_mr(std::exchange(*owned, nullptr)), "ibv_dereg_mr");
  };
  return {.address = address,
          .key = mr->rkey,
          .pieces = {memory.first(border), memory.subspan(border)},
          .mr = mr,
          .endings = {{"deregistered", dereg}},
          .release = dereg};
}

constexpr size_t kUserOffset = 100;  // in its first page
constexpr size_t kUserBorder = Arena::kPage - kUserOffset;
constexpr size_t kUserLength = 3 * Arena::kPage + 301;

Region user(End& owner, Arena& arena, int rights) {
  const auto memory = arena.piece(2, kUserOffset, kUserLength);
  ibv_mr* mr = made(ibv_reg_mr(owner.domain(), memory.data(), memory.size(), rights), "ibv_reg_mr");
  return deregistered(mr, reinterpret_cast<uint64_t>(memory.data()), memory, kUserBorder);
}

Region user_at_chosen_address(End& owner, Arena& arena, int rights) {
  const auto memory = arena.piece(3, kUserOffset, kUserLength);
  const uint64_t iova = kIova + kUserOffset;
  const auto access = static_cast<unsigned>(rights);
  return deregistered(
      made(ibv_reg_mr_iova2(owner.domain(), memory.data(), memory.size(), iova, access), "ibv_reg_mr_iova2"),
      iova, memory, kUserBorder);
}

Region user_zero_based(End& owner, Arena& arena, int rights) {
  const auto memory = arena.piece(4, kUserOffset, kUserLength);
  return deregistered(
      made(ibv_reg_mr(owner.domain(), memory.data(), memory.size(), rights | IBV_ACCESS_ZERO_BASED),
           "ibv_reg_mr"),
      0, memory, kUserBorder);
}

Region physical(End& owner, Arena& arena, int rights) {
  const std::vector pieces{arena.piece(9, 17, 1000), arena.piece(2, 4000, 6000), arena.piece(7, 1, 3),
                           arena.piece(12, 0, Arena::kPage)};
  std::vector<urocedv_phys_buf> runs;
  for (const auto& piece : pieces)
    runs.push_back({.dma_address = arena.bus_address(piece), .length = piece.size()});
  ibv_mr* mr = made(
      urocedv_reg_phys_mr(owner.domain(), runs.data(), static_cast<int>(runs.size()), rights, kIova + 0x123),
      "urocedv_reg_phys_mr");
  Region region = deregistered(mr, kIova + 0x123, pieces.front(), 0);
  region.pieces = pieces;
  return region;
}

Region fmr(End& owner, Arena& arena, int rights) {
  const urocedv_fmr_attr attr{.max_pages = 4, .max_maps = 8, .page_shift = kPageShift};
  urocedv_fmr* object = made(urocedv_alloc_fmr(owner.domain(), rights, &attr), "urocedv_alloc_fmr");
  const auto map = [object, &arena](const auto& pieces, uint64_t iova) {
    const auto list = bus_addresses(arena, pieces);
    check(urocedv_map_phys_fmr(object, list.data(), static_cast<int>(list.size()), iova),
          "urocedv_map_phys_fmr");
  };
  const auto unmap = [object] {
    urocedv_fmr* list = object;
    check(urocedv_unmap_fmr(&list, 1), "urocedv_unmap_fmr");
  };
  const auto pieces = pages(arena, {7, 3, 5, 12});
  map(pieces, kIova);
  return {.address = kIova,
          .key = object->rkey,
          .pieces = pieces,
          .endings = {{"unmapped", unmap}, {"mapped anew", [map, pieces] { map(pieces, kIova); }}},
          .release = [object, unmap] {
            unmap();
            check(urocedv_dealloc_fmr(object), "urocedv_dealloc_fmr");
          }};
}

Region fmr_of_pool(End& owner, Arena& arena, int rights) {
  urocedv_fmr_pool_param param{};
  param.access = rights;
  param.fmr = {.max_pages = 4, .max_maps = 8, .page_shift = kPageShift};
  param.pool_size = 2;
  param.dirty_watermark = 2;
  param.cache = 1;
  urocedv_fmr_pool* pool = made(urocedv_create_fmr_pool(owner.domain(), &param), "urocedv_create_fmr_pool");
  const auto pieces = pages(arena, {2, 10, 4});
  const auto list = bus_addresses(arena, pieces);
  const auto mapped = std::make_shared<urocedv_pool_fmr*>(
      made(urocedv_fmr_pool_map_phys(pool, list.data(), static_cast<int>(list.size()), kIova),
           "urocedv_fmr_pool_map_phys"));
  const auto give_back = [pool, mapped] {
    if (*mapped != nullptr)
      check(urocedv_fmr_pool_unmap(std::exchange(*mapped, nullptr)), "urocedv_fmr_pool_unmap");
    check(urocedv_fmr_pool_flush(pool), "urocedv_fmr_pool_flush");
  };
  return {.address = kIova,
          .key = (*mapped)->rkey,
          .pieces = pieces,
          .endings = {{"given back and flushed", give_back}},
          .release = [pool, give_back] {
            give_back();
            check(urocedv_destroy_fmr_pool(pool), "urocedv_destroy_fmr_pool");
          }};
}

void local_invalidate(End& owner, uint32_t key) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_LOCAL_INV;
  request.invalidate_rkey = key;
  owner.post(request);
  expect_success(owner.completion(), "IBV_WR_LOCAL_INV");
}

/// READ of the peer's buffer, after which the key is no more.
void read_with_invalidate(End& owner, uint32_t key) {
  ibv_qp_ex* queue_pair = ibv_qp_to_qp_ex(owner.queue_pair());
  ibv_wr_start(queue_pair);
  urocedv_wr_rdma_read_inv(queue_pair, owner.peer().at("buffer_key"), owner.peer().at("buffer_address"), key);
  ibv_wr_set_sge(queue_pair, owner.buffer_region()->lkey, reinterpret_cast<uint64_t>(owner.buffer().data()),
                 5000);
  check(ibv_wr_complete(queue_pair), "urocedv_wr_rdma_read_inv");
  expect_success(owner.completion(), "urocedv_wr_rdma_read_inv");
}

/// Bound by a work request to pages of its own list, or to what urocedv_map_mr_sg made of a scatter/gather
/// list; invalidated by work requests or deregistered.
Region fast(End& owner, ibv_mr* mr, const urocedv_reg_mr_attr& attr,
            std::vector<std::span<std::byte>> pieces) {
  ibv_qp_ex* queue_pair = ibv_qp_to_qp_ex(owner.queue_pair());
  ibv_wr_start(queue_pair);
  urocedv_wr_reg_mr(queue_pair, mr, &attr);
  check(ibv_wr_complete(queue_pair), "urocedv_wr_reg_mr");
  expect_success(owner.completion(), "urocedv_wr_reg_mr");
  Region region = deregistered(mr, attr.iova, pieces.front(), 0);
  region.key = attr.key;
  region.pieces = std::move(pieces);
  const auto invalidate = [&owner, key = attr.key] { local_invalidate(owner, key); };
  const auto read = [&owner, key = attr.key] { read_with_invalidate(owner, key); };
  region.endings.insert(region.endings.begin(),
                        {{"invalidated", invalidate}, {"invalidated by a READ", read}});
  return region;
}

Region fast_by_page_list(End& owner, Arena& arena, int rights) {
  constexpr size_t kOffset = 50;
  ibv_mr* mr = made(urocedv_alloc_mr(owner.domain(), UROCEDV_MR_TYPE_MEM_REG, 4), "urocedv_alloc_mr");
  const std::unique_ptr<urocedv_page_list, client::Destroyer<urocedv_free_page_list>> list(
      made(urocedv_alloc_page_list(owner.context(), 3), "urocedv_alloc_page_list"));
  std::vector pieces = pages(arena, {6, 1, 11});
  std::ranges::copy(bus_addresses(arena, pieces), list->pages);
  pieces.front() = pieces.front().subspan(kOffset);
  pieces.back() = pieces.back().first(700);
  urocedv_update_key(mr, static_cast<uint8_t>(mr->rkey + 7));
  urocedv_reg_mr_attr attr{};
  attr.iova = kIova + 5;
  attr.key = mr->rkey;
  attr.access = rights;
  attr.page_list = list.get();
  attr.offset = kOffset;
  attr.length = 2 * Arena::kPage - kOffset + 700;
  attr.pages = 3;
  attr.page_shift = kPageShift;
  return fast(owner, mr, attr, std::move(pieces));
}

Region fast_by_sg_list(End& owner, Arena& arena, int rights) {
  ibv_mr* mr = made(urocedv_alloc_mr(owner.domain(), UROCEDV_MR_TYPE_MEM_REG, 8), "urocedv_alloc_mr");
  const std::vector pieces{arena.piece(13, 1000, Arena::kPage - 1000), arena.piece(3, 0, 2 * Arena::kPage),
                           arena.piece(8, 0, 1)};
  std::vector<urocedv_sg> list;
  for (const auto& piece : pieces) {
    const auto length = static_cast<uint32_t>(piece.size());
    list.push_back({.address = piece.data(),
                    .length = length,
                    .dma_length = length,
                    .dma_address = arena.bus_address(piece)});
  }
  const auto entries = static_cast<int>(list.size());
  if (urocedv_map_mr_sg(mr, list.data(), entries, nullptr, Arena::kPage) != entries) {
    throw client::failed("urocedv_map_mr_sg", errno);
  }
  urocedv_reg_mr_attr attr{};
  attr.iova = kIova;
  attr.key = mr->rkey;
  attr.access = rights;
  return fast(owner, mr, attr, pieces);
}

void bind(End& owner, ibv_mw* window, const ibv_mw_bind_info& info) {
  if (window->type == IBV_MW_TYPE_1) {
    ibv_mw_bind verb{};
    verb.bind_info = info;
    check(ibv_bind_mw(owner.queue_pair(), window, &verb), "ibv_bind_mw");
  } else {
    ibv_send_wr request{};
    request.opcode = IBV_WR_BIND_MW;
    request.bind_mw = {.mw = window, .rkey = ibv_inc_rkey(window->rkey), .bind_info = info};
    owner.post(request);
    window->rkey = request.bind_mw.rkey;
  }
  expect_success(owner.completion(), "binding a window");
}

/// A window on all of the parent but its first and last kCut bytes.
Region window_on(Region parent, End& owner, urocedv_mw_type type, int rights) {
  constexpr size_t kCut = 2;
  const auto window =
      std::make_shared<ibv_mw*>(made(urocedv_alloc_mw(owner.domain(), type), "urocedv_alloc_mw"));
  Region region{.address = parent.address + kCut, .pieces = parent.pieces};
  region.pieces.front() = region.pieces.front().subspan(kCut);
  region.pieces.back() = region.pieces.back().first(region.pieces.back().size() - kCut);
  const ibv_mw_bind_info info{.mr = parent.mr,
                              .addr = region.address,
                              .length = region.length(),
                              .mw_access_flags = static_cast<unsigned>(rights & ~IBV_ACCESS_LOCAL_WRITE)};
  bind(owner, *window, info);
  region.key = (*window)->rkey;
  if (type == UROCEDV_MW_TYPE_1) {
    region.endings = {{"unbound", [&owner, window] { bind(owner, *window, {}); }},
                      {"bound anew", [&owner, window, info] { bind(owner, *window, info); }}};
  } else {
    region.endings = {{"invalidated", [&owner, key = region.key] { local_invalidate(owner, key); }}};
  }
  const auto deallocate = [window] {
    if (*window != nullptr) check(ibv_dealloc_mw(std::exchange(*window, nullptr)), "ibv_dealloc_mw");
  };
  region.endings.push_back({"deallocated", deallocate});
  region.release = [deallocate, release = parent.release] {
    deallocate();
    release();
  };
  return region;
}

// The window's rights are what counts.
constexpr int kParent = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

Region window_1(End& owner, Arena& arena, int rights) {
  return window_on(user(owner, arena, kParent), owner, UROCEDV_MW_TYPE_1, rights);
}

Region window_2a(End& owner, Arena& arena, int rights) {
  return window_on(physical(owner, arena, kParent), owner, UROCEDV_MW_TYPE_2A, rights);
}

Region window_2b(End& owner, Arena& arena, int rights) {
  return window_on(user(owner, arena, kParent), owner, UROCEDV_MW_TYPE_2B, rights);
}

Region window_2b_on_fast(End& owner, Arena& arena, int rights) {
  return window_on(fast_by_page_list(owner, arena, kParent), owner, UROCEDV_MW_TYPE_2B, rights);
}

constexpr std::array kKinds{
    Kind{"user", user, false},
    Kind{"user at a chosen address", user_at_chosen_address, false},
    Kind{"user from zero", user_zero_based, false},
    Kind{"physical", physical, false},
    Kind{"FMR", fmr, false},
    Kind{"FMR of a pool", fmr_of_pool, false},
    Kind{"fast registration of pages", fast_by_page_list, true},
    Kind{"fast registration of an SG list", fast_by_sg_list, true},
    Kind{"window of type 1", window_1, false},
    Kind{"window of type 2A", window_2a, true},
    Kind{"window of type 2B", window_2b, true},
    Kind{"window of type 2B on a fast registration", window_2b_on_fast, true},
};

}  // namespace

Arena::Arena(ibv_context* context)
    : context_(context), memory_(static_cast<std::byte*>(std::aligned_alloc(kPage, kPage * kPages))) {
  bus_ = urocedv_dma_map_single(context_, memory_.get(), kPage * kPages, UROCEDV_DMA_BIDIRECTIONAL);
  if (urocedv_dma_mapping_error(context_, bus_) != 0) throw client::failed("urocedv_dma_map_single", errno);
}

void Arena::unmap() {
  check(urocedv_dma_unmap_single(context_, bus_, kPage * kPages, UROCEDV_DMA_BIDIRECTIONAL),
        "urocedv_dma_unmap_single");
}

uint64_t Region::length() const {
  uint64_t sum = 0;
  for (const auto& piece : pieces) sum += piece.size();
  return sum;
}

std::span<const Kind> kinds() { return kKinds; }

uint64_t send_ops_flags() { return IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_LOCAL_INV; }

}  // namespace uroce::keys
