// Thread domains and parent domains.
//
// A parent domain's allocator is asked for the memory of queues. Its `resource_type` is 1 for those of a
// queue pair, 2 for a shared receive queue, 3 for a completion queue.
#include <algorithm>
#include <cerrno>
#include <mutex>
#include <new>

#include "base/tables/pooled_memory.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/objects.h"

namespace uroce::verbs {

ibv_td* alloc_td(ibv_context* face, ibv_td_init_attr* wanted) {
  return pointer_or_errno([&]() -> ibv_td* {
    VerbsContext& context = object(face);
    if (!context.alive()) return fail(EIO);
    if (wanted == nullptr || wanted->comp_mask != 0) return fail(EINVAL);
    auto td = std::make_unique<VerbsTd>();
    td->context = face;
    td->domain = context.device->take_thread_domain();
    context.users.fetch_add(1);
    return td.release();
  });
}

int dealloc_td(ibv_td* face) {
  VerbsTd& td = object(face);
  VerbsContext& context = object(td.context);
  if (!context.alive()) return with_errno(EIO);
  if (td.users.load() != 0) return with_errno(EBUSY);
  context.device->give_back_thread_domain(td.domain);
  context.users.fetch_sub(1);
  delete &td;
  return 0;
}

namespace {

/// 0, or why there can be no parent domain like this.
int check(const ibv_context* context, const ibv_parent_domain_init_attr& wanted) {
  constexpr uint32_t kKnown = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if ((wanted.comp_mask & ~kKnown) != 0) return EINVAL;
  if (wanted.pd == nullptr || wanted.pd->context != context || object(wanted.pd).below != nullptr)
    return EINVAL;
  if (wanted.td != nullptr && wanted.td->context != context) return EINVAL;
  const bool allocators = (wanted.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  return allocators && (wanted.alloc == nullptr || wanted.free == nullptr) ? EINVAL : 0;
}

}  // namespace

ibv_pd* alloc_parent_domain(ibv_context* face, ibv_parent_domain_init_attr* wanted) {
  return pointer_or_errno([&]() -> ibv_pd* {
    VerbsContext& context = object(face);
    if (!context.alive()) return fail(EIO);
    if (!all_given(wanted)) return fail(EINVAL);
    if (const int error = check(face, *wanted); error != 0) return fail(error);
    auto pd = std::make_unique<VerbsPd>();
    pd->context = face;
    pd->below = &object(wanted->pd);
    pd->domain = pd->below->domain;
    pd->handle = pd->below->handle;
    if (wanted->td != nullptr) pd->td = &object(wanted->td);
    if ((wanted->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0) {
      pd->allocate = wanted->alloc;
      pd->free = wanted->free;
    }
    if ((wanted->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0)
      pd->pd_context = wanted->pd_context;
    pd->below->users.fetch_add(1);
    if (pd->td != nullptr) pd->td->users.fetch_add(1);
    context.users.fetch_add(1);
    return pd.release();
  });
}

void* DomainMemory::do_allocate(size_t bytes, size_t alignment) {
  own_.reserve(own_.size() + 1);
  void* memory = pd_.allocate(&pd_, pd_.pd_context, bytes, alignment, static_cast<uint64_t>(type_));
  if (memory == IBV_ALLOCATOR_USE_DEFAULT) {
    memory = pooled_memory()->allocate(bytes, alignment);
    own_.push_back(memory);
  } else if (memory == nullptr) {
    throw std::bad_alloc();
  } else if (reinterpret_cast<uintptr_t>(memory) % alignment != 0) {
    pd_.free(&pd_, pd_.pd_context, memory, static_cast<uint64_t>(type_));
    throw std::bad_alloc();
  }
  return memory;
}

void DomainMemory::do_deallocate(void* memory, size_t bytes, size_t alignment) {
  if (std::erase(own_, memory) != 0) {
    pooled_memory()->deallocate(memory, bytes, alignment);
  } else {
    pd_.free(&pd_, pd_.pd_context, memory, static_cast<uint64_t>(type_));
  }
}

std::unique_ptr<DomainMemory> memory_of(VerbsPd* pd, DomainMemory::Type type) {
  return pd != nullptr && pd->allocate != nullptr ? std::make_unique<DomainMemory>(*pd, type) : nullptr;
}

}  // namespace uroce::verbs
