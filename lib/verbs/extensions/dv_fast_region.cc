// Regions for fast registration, and the work requests that bind and unbind them.
//
// Decision: REG_MR and READ with invalidate also go through ibv_post_send, as IBV_WR_DRIVER1 at the beginning
// of a urocedv_send_wr. That opcode is all that rdma-core leaves to drivers, so the structure says which of
// the two it is.
#include <infiniband/urocedv.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "engine/platform/fault_handler.h"
#include "mem/bus/page_list.h"
#include "mem/regions/fast_region.h"
#include "qp/attributes/operations.h"
#include "qp/requester/local_operation.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/dv.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/posting/requests.h"

namespace uroce::verbs {

namespace {

struct VerbsFastMr : VerbsMr {
  std::unique_ptr<mem::FastRegion> region;
  std::unique_ptr<mem::PageList> list;  // of its own
  mem::PageExtent extent;               // in that list
};

struct VerbsPageList : urocedv_page_list {
  std::unique_ptr<mem::PageList> list;
};

int end_fast_region(VerbsMr& mr) {
  auto& fast = static_cast<VerbsFastMr&>(mr);
  if (fast.list->posted()) return EBUSY;
  return errno_of(fast.region->end());
}

/// nullptr for a region of another kind.
VerbsFastMr* fast_region(ibv_mr* mr) {
  if (mr == nullptr || object(mr).end != end_fast_region) return nullptr;
  return static_cast<VerbsFastMr*>(&object(mr));
}

ibv_mr* alloc_mr(ibv_pd* pd, uint32_t pages_max) {
  engine::Device& device = *object(pd->context).device;
  engine::install_fault_handler();
  auto mr = std::make_unique<VerbsFastMr>();
  auto region = mem::FastRegion::make(device.regions(), object(pd).domain, pages_max);
  if (!region) return fail(region.error().code);
  mr->list = std::make_unique<mem::PageList>(device.bus_space(), pages_max);
  mr->region = std::move(*region);
  mr->free = [](VerbsMr* gone) { delete static_cast<VerbsFastMr*>(gone); };
  fill_region(*mr, pd, mr->region->first_key(), end_fast_region);
  return mr.release();
}

urocedv_page_list* alloc_page_list(ibv_context* context, uint32_t pages_max) {
  auto list = std::make_unique<VerbsPageList>();
  list->list = std::make_unique<mem::PageList>(object(context).device->bus_space(), pages_max);
  list->context = context;
  list->pages = list->list->addresses().data();
  list->max_pages = pages_max;
  return list.release();
}

int no_entries(int error) {
  errno = error;
  return 0;
}

int map_sg(VerbsFastMr& mr, std::span<const urocedv_sg> entries, uint64_t& offset, uint64_t page_size) {
  if (unknown_bits(entries)) return no_entries(EINVAL);
  std::vector<mem::BusRange> runs;
  runs.reserve(entries.size());
  for (const urocedv_sg& entry : entries) runs.push_back({entry.dma_address, entry.dma_length});
  const uint64_t start = offset;
  const Result<uint32_t> mapped = mr.list->fill(runs, offset, page_size, mr.extent);
  if (!mapped) return no_entries(mapped.error().code);
  mr.addr = reinterpret_cast<void*>(runs[0].address + start);
  mr.length = mr.extent.length;
  return static_cast<int>(*mapped);
}

/// The list and the part of it that a registration names.
struct Pages {
  mem::PageList* list = nullptr;
  mem::PageExtent extent;
};

Pages pages_of(const VerbsFastMr& mr, const urocedv_reg_mr_attr& wanted) {
  if (wanted.page_list == nullptr) return {mr.list.get(), mr.extent};
  return {static_cast<VerbsPageList*>(wanted.page_list)->list.get(),
          {.pages = wanted.pages,
           .page_shift = static_cast<uint8_t>(std::min(wanted.page_shift, uint32_t{UINT8_MAX})),
           .offset = wanted.offset,
           .length = wanted.length}};
}

/// 0, or why it cannot be posted. The pages are pinned then.
int prepare(const VerbsQp& qp, const VerbsFastMr* mr, const urocedv_reg_mr_attr* wanted, Pages& pages) {
  if (mr == nullptr || wanted == nullptr || wanted->comp_mask != 0) return EINVAL;
  const ibv_context* context = qp.face().context;
  if (mr->context != context) return EINVAL;
  if (wanted->page_list != nullptr && wanted->page_list->context != context) return EINVAL;
  pages = pages_of(*mr, *wanted);
  const mem::Access access(static_cast<uint32_t>(wanted->access));
  if (const int error = mr->region->check(pages.extent, wanted->iova, access); error != 0) return error;
  return pages.list->post(pages.extent, access);
}

constexpr unsigned int kFlagsOfLocal = IBV_SEND_SIGNALED | IBV_SEND_FENCE;

qp::RegisterOperation operation_of(const VerbsFastMr& mr, const urocedv_reg_mr_attr& wanted,
                                   mem::PageList& pages) {
  return {.region = mr.region->first_key(),
          .key = {wanted.key},
          .access = mem::Access(static_cast<uint32_t>(wanted.access)),
          .iova = wanted.iova,
          .pages = &pages};
}

/// A request beside the lists of ibv_wr_*; nullptr: the queue is full.
queue::SendRequest* reserve(const VerbsQp& qp, const ibv_send_wr& from, queue::SendOperation operation) {
  queue::SendRequest* const request = qp.handle->send_queue.reserve();
  if (request == nullptr) return nullptr;
  request->wr_id = from.wr_id;
  request->operation = operation;
  request->signaled = qp.signal_all || (from.send_flags & IBV_SEND_SIGNALED) != 0;
  request->fence = (from.send_flags & IBV_SEND_FENCE) != 0;
  return request;
}

int enqueue_registration(const VerbsQp& qp, const urocedv_send_wr& from) {
  if ((from.wr.send_flags & ~kFlagsOfLocal) != 0) return EINVAL;
  if (!qp::has_operation(qp.type, queue::SendOperation::kRegister)) return EINVAL;
  VerbsFastMr* const mr = fast_region(from.reg_mr.mr);
  Pages pages;
  if (const int error = prepare(qp, mr, &from.reg_mr.attr, pages); error != 0) return error;
  queue::SendRequest* const request = reserve(qp, from.wr, queue::SendOperation::kRegister);
  if (request == nullptr) {
    pages.list->give_back();
    return ENOMEM;
  }
  qp.handle->send_queue.set_operation(*request, operation_of(*mr, from.reg_mr.attr, *pages.list));
  return 0;
}

int enqueue_read_invalidate(const VerbsQp& qp, const urocedv_send_wr& from) {
  if ((from.wr.send_flags & ~kFlagsOfLocal) != 0) return EINVAL;
  if (!qp::has_operation(qp.type, queue::SendOperation::kReadInvalidate)) return EINVAL;
  const auto count = static_cast<uint32_t>(from.wr.num_sge);
  if (count > qp.limits.send_segments) return EINVAL;
  const uint64_t bytes = sum(from.wr.sg_list, count);
  if (bytes > kMessageBytesMax) return EINVAL;
  const bool names_receiver = qp.type == qp::Type::kXrcSend;
  if (names_receiver && !can_name_srq(from.wr.qp_type.xrc.remote_srqn)) return EINVAL;
  queue::SendRequest* const request = reserve(qp, from.wr, queue::SendOperation::kReadInvalidate);
  if (request == nullptr) return ENOMEM;
  if (names_receiver) set_srq(qp, *request, from.wr.qp_type.xrc.remote_srqn);
  request->segments = static_cast<uint16_t>(count);
  request->length = static_cast<uint32_t>(bytes);
  request->remote_address = from.wr.wr.rdma.remote_addr;
  request->rkey = {from.wr.wr.rdma.rkey};
  request->invalidate = {from.invalidate_key};
  copy_segments(qp.handle->send_queue.segments(*request), from.wr.sg_list, count);
  return 0;
}

void post_registration(ibv_qp_ex* face, VerbsFastMr* mr, const urocedv_reg_mr_attr* wanted) {
  ExtendedQp& qp = object(face);
  if (qp.list_error != 0) return;
  if ((face->wr_flags & ~kFlagsOfLocal) != 0) return refuse(qp, EINVAL);
  Pages pages;
  if (const int error = prepare(qp, mr, wanted, pages); error != 0) return refuse(qp, error);
  queue::SendRequest* request = begin(face, queue::SendOperation::kRegister);
  if (request == nullptr) return pages.list->give_back();
  qp.handle->send_queue.set_operation(*request, operation_of(*mr, *wanted, *pages.list));
}

}  // namespace

bool is_fast_region(const VerbsMr& mr) { return mr.end == end_fast_region; }

int enqueue_driver(VerbsQp& qp, const ibv_send_wr& from) {
  const auto& more = reinterpret_cast<const urocedv_send_wr&>(from);
  if (more.comp_mask != 0) return EINVAL;
  switch (more.opcode) {
    case UROCEDV_WR_REG_MR:
      return enqueue_registration(qp, more);
    case UROCEDV_WR_RDMA_READ_INV:
      return enqueue_read_invalidate(qp, more);
  }
  return EINVAL;
}

}  // namespace uroce::verbs

using namespace uroce;
using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT ibv_mr* uroce_urocedv_alloc_mr(ibv_pd* pd, unsigned type, uint32_t max_pages) {
  if (pd == nullptr) return fail(EINVAL);
  if (const int error = check_context(pd->context); error != 0) return fail(error);
  if (type != UROCEDV_MR_TYPE_MEM_REG) return fail(EINVAL);
  return pointer_or_errno([&] { return alloc_mr(pd, max_pages); });
}

UROCE_EXPORT urocedv_page_list* uroce_urocedv_alloc_page_list(ibv_context* context, uint32_t max_pages) {
  if (const int error = check_context(context); error != 0) return fail(error);
  if (max_pages == 0 || max_pages > mem::FastRegion::kPagesMax) return fail(EINVAL);
  return pointer_or_errno([&] { return alloc_page_list(context, max_pages); });
}

UROCE_EXPORT int uroce_urocedv_free_page_list(urocedv_page_list* face) {
  return checked_errno(face, [&] {
    auto* list = static_cast<VerbsPageList*>(face);
    if (list->list->posted()) return EBUSY;
    delete list;
    return 0;
  });
}

UROCE_EXPORT int uroce_urocedv_map_mr_sg(ibv_mr* face, const urocedv_sg* sg, int entries, uint64_t* offset,
                                         uint64_t page_size) {
  if (face == nullptr || sg == nullptr || entries <= 0) return no_entries(EINVAL);
  if (const int error = check_context(face->context); error != 0) return no_entries(error);
  VerbsFastMr* mr = fast_region(face);
  if (mr == nullptr) return no_entries(EINVAL);
  uint64_t from_start = 0;
  int mapped = 0;
  const int error = zero_or_errno([&] {
    mapped =
        map_sg(*mr, {sg, static_cast<size_t>(entries)}, offset != nullptr ? *offset : from_start, page_size);
    return 0;
  });
  return error == 0 ? mapped : no_entries(error);
}

UROCE_EXPORT void uroce_urocedv_wr_reg_mr(ibv_qp_ex* qp, ibv_mr* mr, const urocedv_reg_mr_attr* wanted) {
  if (!is_ours(qp)) return;
  post_registration(qp, fast_region(mr), wanted);
}

UROCE_EXPORT void uroce_urocedv_wr_rdma_read_inv(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address,
                                                 uint32_t key) {
  if (!is_ours(qp)) return;
  queue::SendRequest* request = begin(qp, queue::SendOperation::kReadInvalidate);
  if (request == nullptr) return;
  request->remote_address = remote_address;
  request->rkey = {rkey};
  request->invalidate = {key};
}

}  // extern "C"
