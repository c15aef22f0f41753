#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>

extern "C" {
#include "apps/examples/pair.h"
}

// What it costs to bind a region by a work request and to unbind it by the next one, both on one queue pair
// and posted in batches; beside it what ibv_reg_mr and ibv_dereg_mr take for the same memory.

namespace {

constexpr uint32_t kPageShift = 12;
constexpr uint32_t kBatch = 8;

/// `kBatch` regions, each with a page list over the same `pages` pages.
class Regions {
 public:
  explicit Regions(uint32_t pages)
      : pair_(pair_open(0)), length_(uint64_t{pages} << kPageShift), memory_(pattern(length_, 1)) {
    bus_ = urocedv_dma_map_single(pair_.context, memory_, length_, UROCEDV_DMA_BIDIRECTIONAL);
    CHECK(!urocedv_dma_mapping_error(pair_.context, bus_));
    for (uint32_t i = 0; i < kBatch; ++i) {
      mrs_[i] = urocedv_alloc_mr(pair_.pd, UROCEDV_MR_TYPE_MEM_REG, pages);
      lists_[i] = urocedv_alloc_page_list(pair_.context, pages);
      CHECK(mrs_[i] != nullptr && lists_[i] != nullptr);
      for (uint64_t page = 0; page < pages; ++page) lists_[i]->pages[page] = bus_ + (page << kPageShift);
    }
  }
  ~Regions() {
    for (uint32_t i = 0; i < kBatch; ++i) {
      urocedv_free_page_list(lists_[i]);
      ibv_dereg_mr(mrs_[i]);
    }
    urocedv_dma_unmap_single(pair_.context, bus_, length_, UROCEDV_DMA_BIDIRECTIONAL);
    free(memory_);
    pair_close(&pair_);
  }
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;

  /// False: it did not work.
  bool bind_and_unbind(uint32_t pages) {
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair_.near_qp);
    ibv_wr_start(qp);
    qp->wr_flags = 0;
    for (uint32_t i = 0; i < kBatch; ++i) {
      const urocedv_reg_mr_attr attributes{.iova = 0,
                                           .key = mrs_[i]->rkey,
                                           .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                                           .page_list = lists_[i],
                                           .length = length_,
                                           .pages = pages,
                                           .page_shift = kPageShift};
      urocedv_wr_reg_mr(qp, mrs_[i], &attributes);
      ibv_wr_local_inv(qp, mrs_[i]->rkey);
    }
    bool good = ibv_wr_complete(qp) == 0;
    // Each request of the pair of queue pairs has a completion.
    for (uint32_t left = 2 * kBatch; good && left > 0; --left)
      good = pair_completion(&pair_).status == IBV_WC_SUCCESS;
    return good;
  }

  bool register_and_end() {
    ibv_mr* mr = ibv_reg_mr(pair_.pd, memory_, length_, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return mr != nullptr && ibv_dereg_mr(mr) == 0;
  }

 private:
  pair pair_;
  uint64_t length_;
  unsigned char* memory_;
  uint64_t bus_ = 0;
  std::array<ibv_mr*, kBatch> mrs_{};
  std::array<urocedv_page_list*, kBatch> lists_{};
};

void fast(benchmark::State& state) {
  const auto pages = static_cast<uint32_t>(state.range(0));
  Regions regions(pages);
  for (auto _ : state) {
    if (!regions.bind_and_unbind(pages)) return state.SkipWithError("it did not work");
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

void plain(benchmark::State& state) {
  Regions regions(static_cast<uint32_t>(state.range(0)));
  for (auto _ : state) {
    if (!regions.register_and_end()) return state.SkipWithError("refused");
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(fast)->Name("fast_registration/pair")->Arg(1)->Arg(64)->UseRealTime();
BENCHMARK(plain)->Name("fast_registration/floor_reg_mr")->Arg(1)->Arg(64)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
