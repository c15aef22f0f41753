// What is done to a user region that is there: re-registration and advice.
//
// IBV_REREG_MR_ERR_CMD is what the kernel refuses on hardware: rights, ranges, memory, a window over the
// region, another device's domain. IBV_REREG_MR_ERR_INPUT is what libibverbs itself refuses; programs compare
// with the values of rdma-core. The region is what it was in both cases, although ibv_rereg_mr(3) says of
// ERR_CMD that it must not be used. Cost: a program that could go on may deregister it.
#include <cerrno>
#include <vector>

#include "engine/platform/fault_handler.h"
#include "mem/regions/advice.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"

namespace uroce::verbs {

namespace {

/// What ibv_rereg_mr is told beside its flags and the domain.
struct ReregisterRequest {
  void* address = nullptr;
  size_t length = 0;
  int access = 0;
};

/// Whether libibverbs passes the request on to the kernel.
bool passes(const VerbsMr& mr, int flags, const ibv_pd* pd, const ReregisterRequest& request) {
  const auto has = [&](int flag) { return (flags & flag) != 0; };
  if (!is_user_region(mr) || has(~IBV_REREG_MR_FLAGS_SUPPORTED)) return false;
  if (has(IBV_REREG_MR_CHANGE_TRANSLATION) && (request.address == nullptr || request.length == 0))
    return false;
  if (has(IBV_REREG_MR_CHANGE_PD) && pd == nullptr) return false;
  return has(IBV_REREG_MR_CHANGE_ACCESS) || request.access == 0;
}

/// Makes a change that passes(): 0 or errno.
int reregister(VerbsMr& mr, int flags, ibv_pd* pd, const ReregisterRequest& request) {
  mem::RegionChange change;
  if (flags == 0) return EINVAL;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0)
    change.place = {static_cast<std::byte*>(request.address), request.length};
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
    if (pd->context != mr.context) return EINVAL;
    change.domain = static_cast<const VerbsPd*>(pd)->domain;
  }
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0)
    change.access = mem::Access(static_cast<uint32_t>(request.access));
  engine::install_fault_handler();
  const int error = errno_of(object(mr.context).device->regions().reregister(mr.key, change));
  if (error != 0) return error;
  if (change.domain) {
    object(pd).users.fetch_add(1);
    object(mr.pd).users.fetch_sub(1);
    mr.pd = pd;
  }
  if (change.place) {
    mr.addr = request.address;
    mr.length = request.length;
  }
  return 0;
}

}  // namespace

int advise_mr(ibv_pd* face, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* list, uint32_t count) {
  return zero_or_errno([&] {
    VerbsContext& context = object(face->context);
    if (!context.alive()) return EIO;
    if ((flags & ~uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0 || count == 0 || list == nullptr) return EINVAL;
    mem::Advice means{};
    switch (bits_of(advice)) {
      case IBV_ADVISE_MR_ADVICE_PREFETCH:
        means = mem::Advice::kPrefetch;
        break;
      case IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE:
        means = mem::Advice::kPrefetchWrite;
        break;
      case IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
        means = mem::Advice::kPrefetchPresent;
        break;
      default:
        return ENOTSUP;
    }
    std::vector<mem::AdvisedRange> ranges;
    ranges.reserve(count);
    for (uint32_t i = 0; i < count; ++i) ranges.push_back({{list[i].lkey}, list[i].addr, list[i].length});
    return errno_of(mem::advise(context.device->regions(), object(face).domain, means, ranges));
  });
}

}  // namespace uroce::verbs

using namespace uroce::verbs;

/// IBV_REREG_MR_ERR_INPUT is what libibverbs refuses by itself, IBV_REREG_MR_ERR_CMD what the kernel refuses
/// on hardware: rights, ranges, memory, another device's domain. The region is what it was in both cases;
/// errno has the reason.
extern "C" UROCE_EXPORT int uroce_ibv_rereg_mr(ibv_mr* face, int flags, ibv_pd* pd, void* address,
                                               size_t length, int access) {
  if (!all_given(face)) return with_errno(EINVAL), IBV_REREG_MR_ERR_INPUT;
  VerbsMr& mr = object(face);
  if (!object(mr.context).alive()) return with_errno(EIO), IBV_REREG_MR_ERR_CMD;
  const ReregisterRequest request{address, length, access};
  if (!passes(mr, flags, pd, request)) return with_errno(EINVAL), IBV_REREG_MR_ERR_INPUT;
  const int error = zero_or_errno([&] { return reregister(mr, flags, pd, request); });
  return error == 0 ? 0 : IBV_REREG_MR_ERR_CMD;
}
