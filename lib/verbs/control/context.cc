// Decision: a forked child opens devices of its own; what it has inherited is dead (EIO). Python's
// multiprocessing opens the device again in children. Cost: the parent's objects stay in the child's memory.
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "engine/device/stack.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/calls/standard_streams.h"
#include "verbs/posting/requests.h"

namespace uroce::verbs {

namespace {

void fill_operations(VerbsContext& context) {
  context.sz = sizeof(verbs_context);
  context.query_port = query_port;
  context.query_device_ex = query_device_ex;
  context.query_rt_values = query_rt_values;
  context.advise_mr = advise_mr;
  context.create_cq_ex = create_cq_ex;
  context.modify_cq = modify_cq;
  context.open_xrcd = open_xrcd;
  context.close_xrcd = close_xrcd;
  context.create_srq_ex = create_srq_ex;
  context.get_srq_num = get_srq_num;
  context.open_qp = open_qp;
  context.alloc_td = alloc_td;
  context.dealloc_td = dealloc_td;
  context.alloc_parent_domain = alloc_parent_domain;
  context.alloc_null_mr = alloc_null_mr;
  context.create_qp_ex = [](ibv_context* face, ibv_qp_init_attr_ex* wanted) {
    return create_qp_ex(face, wanted, {});
  };
  ibv_context_ops& operations = context.context.ops;
  operations.post_send = post_send;
  operations.post_recv = post_recv;
  operations.post_srq_recv = post_srq_recv;
  operations.poll_cq = poll_cq;
  operations.req_notify_cq = req_notify_cq;
  operations.alloc_mw = alloc_mw;
  operations.bind_mw = bind_mw;
  operations.dealloc_mw = dealloc_mw;
}

ibv_context* open_device(VerbsDevice& device) {
  if (engine::Stack::starting_on_this_thread()) return fail(ENODEV);
  const Result<engine::Stack*> stack = engine::Stack::instance();
  if (!stack) return fail(stack.error().code);
  const StandardStreamsReserved streams;
  auto context = std::make_unique<VerbsContext>();
  if (const int error = context->async_events.open(); error != 0) return fail(error);
  Result<std::shared_ptr<engine::Device>> opened = stack.value()->open(device.index);
  if (!opened) {
    complain(opened.error().message, device.face.name);
    return fail(opened.error().code);
  }
  context->device = std::move(*opened);
  context->birth = fork_count();
  device.guid = context->device->guid();
  fill_operations(*context);
  ibv_context& face = context->context;
  face.device = &device.face;
  face.cmd_fd = -1;
  face.async_fd = context->async_events.read_fd();
  face.num_comp_vectors = 1;
  face.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&face.mutex, nullptr);
  context->device->add_listener(context->notifier);
  return &context.release()->context;
}

/// Ends what the context has, as the kernel does when a process closes its descriptor: nothing of the context
/// sends, answers or touches memory any more. The objects stay as they lie, because the program has pointers
/// to them; whatever it does with one is refused.
void leave_behind(VerbsContext& context) {
  context.birth.store(VerbsContext::kClosed);
  engine::Device& device = *context.device;
  device.destroy_queue_pairs([&](const engine::QpSlot& queue_pair) {
    const auto* qp = static_cast<const VerbsQp*>(queue_pair.owner);
    return qp != nullptr && qp->owner == &context;
  });
  leave_xrc_domains(context);
  const std::lock_guard guard(context.domains_mutex);
  for (const DomainId domain : context.domains) device.regions().end_domain(domain);
  context.device.reset();
  context.async_events.close();
}

}  // namespace

}  // namespace uroce::verbs

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT ibv_context* uroce_ibv_open_device(ibv_device* device) {
  if (!all_given(device)) return fail(EINVAL);
  return pointer_or_errno([&] { return open_device(object(device)); });
}

UROCE_EXPORT int uroce_ibv_close_device(ibv_context* face) {
  if (!all_given(face)) return with_errno(EINVAL);
  return zero_or_errno([&] {
    VerbsContext& context = object(face);
    // A child has no threads to end: the parent's device stays as it lies.
    if (!context.alive()) return 0;
    context.device->remove_listener(context.notifier);
    if (context.users.load() != 0) {
      leave_behind(context);
      return 0;
    }
    pthread_mutex_destroy(&face->mutex);
    delete &context;
    return 0;
  });
}

}  // extern "C"
