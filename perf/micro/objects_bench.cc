#include <benchmark/benchmark.h>
#include <infiniband/urocedv.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

// What it costs to end an object of each kind, wherever it stands among the others, and to make one more,
// with one alive, with 1,000 and with 100,000. `ratio` is the last by the second: with a cost that does not
// depend on how many there are it is near 1, but for what does not fit into the CPU's caches any more.

namespace {

constexpr int64_t kOne = 1;
constexpr int64_t kFew = 1000;
constexpr int64_t kMany = 100'000;

/// What objects are made of.
struct Base {
  Base() {
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    if (list == nullptr || count == 0) std::abort();
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    ibv_xrcd_init_attr wanted{};
    wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    wanted.fd = -1;
    xrcd = ibv_open_xrcd(context, &wanted);
    if (pd == nullptr || cq == nullptr || xrcd == nullptr) std::abort();
    way.is_global = 1;
    way.port_num = 1;
    way.grh.sgid_index = 1;
    ibv_query_gid(context, 1, 1, &way.grh.dgid);
  }
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_xrcd* xrcd = nullptr;
  ibv_ah_attr way{};
  std::vector<std::byte> memory = std::vector<std::byte>(1 << 16);
};
Base& base() {
  static Base& all = *new Base;
  return all;
}

/// Bus addresses are no pointers; 0 is none of them here.
void* pointer_to(uint64_t number) { return reinterpret_cast<void*>(number); }
uint64_t number_of(void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

struct Kind {
  const char* name;
  void* (*make)(Base& of);
  int (*end)(Base& of, void* object);
};

/// What ends an object that is a pointer of that type.
template <auto kEnd, typename Object>
int end_with(Base&, void* object) {
  return kEnd(static_cast<Object*>(object));
}

ibv_srq_init_attr_ex xrc_receives(const Base& of) {
  ibv_srq_init_attr_ex wanted{};
  wanted.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  wanted.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  wanted.srq_type = IBV_SRQT_XRC;
  wanted.pd = of.pd;
  wanted.xrcd = of.xrcd;
  wanted.cq = of.cq;
  return wanted;
}

void* make_parent_domain(Base& of) {
  ibv_parent_domain_init_attr wanted{};
  wanted.pd = of.pd;
  return ibv_alloc_parent_domain(of.context, &wanted);
}
void* make_xrc_domain(Base& of) {
  ibv_xrcd_init_attr wanted{};
  wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  wanted.fd = -1;
  return ibv_open_xrcd(of.context, &wanted);
}
void* make_queue_pair(Base& of) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = of.cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {1, 1, 1, 1, 0};
  return ibv_create_qp(of.pd, &wanted);
}
void* make_xrc_target(Base& of) {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = IBV_QPT_XRC_RECV;
  wanted.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  wanted.xrcd = of.xrcd;
  return ibv_create_qp_ex(of.context, &wanted);
}
void* open_xrc_target(Base& of) {
  static ibv_qp* const first = static_cast<ibv_qp*>(make_xrc_target(of));
  if (first == nullptr) return nullptr;
  ibv_qp_open_attr wanted{};
  wanted.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  wanted.qp_num = first->qp_num;
  wanted.xrcd = of.xrcd;
  wanted.qp_type = IBV_QPT_XRC_RECV;
  return ibv_open_qp(of.context, &wanted);
}
void* make_shared_receives(Base& of) {
  ibv_srq_init_attr wanted{};
  wanted.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  return ibv_create_srq(of.pd, &wanted);
}
void* make_xrc_receives(Base& of) {
  ibv_srq_init_attr_ex wanted = xrc_receives(of);
  return ibv_create_srq_ex(of.context, &wanted);
}
void* make_fmr(Base& of) {
  const urocedv_fmr_attr wanted{.max_pages = 1, .max_maps = 1, .page_shift = 12};
  return urocedv_alloc_fmr(of.pd, IBV_ACCESS_LOCAL_WRITE, &wanted);
}
void* map_for_dma(Base& of) {
  const uint64_t made = urocedv_dma_map_single(of.context, of.memory.data(), 64, UROCEDV_DMA_BIDIRECTIONAL);
  return made == UROCEDV_DMA_ERROR ? nullptr : pointer_to(made);
}

const Kind kKinds[] = {
    {"pd", [](Base& of) -> void* { return ibv_alloc_pd(of.context); }, end_with<ibv_dealloc_pd, ibv_pd>},
    {"parent_domain", make_parent_domain, end_with<ibv_dealloc_pd, ibv_pd>},
    {"thread_domain",
     [](Base& of) -> void* {
       ibv_td_init_attr wanted{};
       return ibv_alloc_td(of.context, &wanted);
     },
     end_with<[](ibv_td* td) { return ibv_dealloc_td(td); }, ibv_td>},
    {"xrc_domain", make_xrc_domain, end_with<[](ibv_xrcd* xrcd) { return ibv_close_xrcd(xrcd); }, ibv_xrcd>},
    {"cq", [](Base& of) -> void* { return ibv_create_cq(of.context, 1, nullptr, nullptr, 0); },
     end_with<ibv_destroy_cq, ibv_cq>},
    {"comp_channel", [](Base& of) -> void* { return ibv_create_comp_channel(of.context); },
     end_with<ibv_destroy_comp_channel, ibv_comp_channel>},
    {"qp", make_queue_pair, end_with<ibv_destroy_qp, ibv_qp>},
    {"xrc_target", make_xrc_target, end_with<ibv_destroy_qp, ibv_qp>},
    {"xrc_target_handle", open_xrc_target, end_with<ibv_destroy_qp, ibv_qp>},
    {"srq", make_shared_receives, end_with<ibv_destroy_srq, ibv_srq>},
    {"xrc_srq", make_xrc_receives, end_with<ibv_destroy_srq, ibv_srq>},
    {"ah", [](Base& of) -> void* { return ibv_create_ah(of.pd, &of.way); }, end_with<ibv_destroy_ah, ibv_ah>},
    {"mr",
     [](Base& of) -> void* { return (ibv_reg_mr)(of.pd, of.memory.data(), 4096, IBV_ACCESS_LOCAL_WRITE); },
     end_with<ibv_dereg_mr, ibv_mr>},
    {"fast_mr", [](Base& of) -> void* { return urocedv_alloc_mr(of.pd, UROCEDV_MR_TYPE_MEM_REG, 1); },
     end_with<ibv_dereg_mr, ibv_mr>},
    {"page_list", [](Base& of) -> void* { return urocedv_alloc_page_list(of.context, 1); },
     end_with<urocedv_free_page_list, urocedv_page_list>},
    {"fmr", make_fmr, end_with<urocedv_dealloc_fmr, urocedv_fmr>},
    {"mw", [](Base& of) -> void* { return ibv_alloc_mw(of.pd, IBV_MW_TYPE_2); },
     end_with<[](ibv_mw* mw) { return ibv_dealloc_mw(mw); }, ibv_mw>},
    {"dma_mapping", map_for_dma,
     [](Base& of, void* object) {
       return urocedv_dma_unmap_single(of.context, number_of(object), 64, UROCEDV_DMA_BIDIRECTIONAL);
     }},
    {"memory",
     [](Base& of) -> void* {
       return urocedv_alloc_memory(of.pd, 64, UROCEDV_ANY_NODE, IBV_ACCESS_LOCAL_WRITE, 0);
     },
     end_with<urocedv_free_memory, urocedv_memory>},
};

/// So many objects of one kind; all of them end with it.
class Crowd {
 public:
  explicit Crowd(const Kind& kind) : kind_(kind) {}
  ~Crowd() {
    for (void* const object : objects_) kind_.end(base(), object);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  bool fill(int64_t count) {
    while (static_cast<int64_t>(objects_.size()) < count) {
      void* const made = kind_.make(base());
      if (made == nullptr) return false;
      objects_.push_back(made);
    }
    return true;
  }
  /// Ends one of them and makes another one.
  bool replace() {
    void*& object = objects_[random_() % objects_.size()];
    if (kind_.end(base(), object) != 0) return false;
    object = kind_.make(base());
    return object != nullptr;
  }

 private:
  const Kind& kind_;
  std::vector<void*> objects_;
  std::minstd_rand random_{7};
};

/// The fastest of batches: other programs slow down some of them.
double nanoseconds_of(Crowd& crowd, benchmark::State& state) {
  constexpr int kBatch = 64;
  double best = 1e18;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kBatch; ++i) {
      if (!crowd.replace()) {
        state.SkipWithError("an object could not be made or ended");
        return best;
      }
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / kBatch);
    state.SetIterationTime(took.count() / 1e9);
  }
  return best;
}

void replace_one(benchmark::State& state, const Kind& kind) {
  static std::map<std::string, double> few;
  Crowd crowd(kind);
  const int64_t count = state.range(0);
  if (!crowd.fill(count)) return state.SkipWithError("so many cannot be had (ulimit -n, ulimit -l)");
  const double best = nanoseconds_of(crowd, state);
  state.counters["ns_per_object"] = best;
  if (count == kFew) few[kind.name] = best;
  if (count == kMany && few.contains(kind.name)) state.counters["ratio"] = best / few[kind.name];
}

}  // namespace

int main(int argc, char** argv) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  for (const Kind& kind : kKinds) {
    benchmark::RegisterBenchmark((std::string("objects/") + kind.name).c_str(), replace_one, kind)
        ->Arg(kOne)
        ->Arg(kFew)
        ->Arg(kMany)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
