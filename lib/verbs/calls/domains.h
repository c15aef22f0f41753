#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <vector>

#include "base/values/identifiers.h"
#include "engine/device/device.h"
#include "mem/regions/hugepage_arena.h"

namespace uroce::verbs {

/// A thread of the application that alone uses what is made with it.
struct VerbsTd : ibv_td {
  engine::ThreadDomain domain;
  std::atomic<uint32_t> users{0};  // parent domains
};

/// A protection domain; or a parent domain, which is one with a thread or an allocator.
struct VerbsPd : ibv_pd {
  DomainId domain;
  std::list<DomainId>::iterator place;  // among its context's, but for a parent domain
  std::atomic<uint32_t> users{0};       // regions, windows, queue pairs and address handles
  std::mutex arena_mutex;
  std::unique_ptr<mem::HugepageArena> arena;  // made when it is first needed, under the mutex

  // Of a parent domain.
  VerbsPd* below = nullptr;  // the protection domain whose regions and queue pairs are its own
  VerbsTd* td = nullptr;
  decltype(ibv_parent_domain_init_attr::alloc) allocate = nullptr;  // both or none
  decltype(ibv_parent_domain_init_attr::free) free = nullptr;
  void* pd_context = nullptr;

  [[nodiscard]] std::optional<engine::ThreadDomain> thread_domain() const {
    return td != nullptr ? std::optional(td->domain) : std::nullopt;
  }
};

/// Memory for queues from a parent domain's allocator, which may leave it to us. Any thread that makes or
/// ends the object whose it is.
class DomainMemory final : public std::pmr::memory_resource {
 public:
  /// What the allocator hears it is for.
  enum class Type : uint64_t { kQueuePair = 1, kSharedReceiveQueue = 2, kCompletionQueue = 3 };
  DomainMemory(VerbsPd& pd, Type type) : pd_(pd), type_(type) {}

 private:
  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void* memory, size_t bytes, size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  VerbsPd& pd_;
  const Type type_;
  std::vector<void*> own_;  // not from the allocator
};
/// nullptr: without an allocator, from the pool.
std::unique_ptr<DomainMemory> memory_of(VerbsPd* pd, DomainMemory::Type type);

}  // namespace uroce::verbs
