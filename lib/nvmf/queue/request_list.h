#pragma once

#include "base/values/contract.h"
#include "nvmf/queue/request.h"

namespace uroce::nvmf {

/// Requests in the order in which they came. A request is in one list at most.
class RequestList {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  void push(Request& request) {
    UROCE_ASSERT(request.progress.next == nullptr && last_ != &request);
    (first_ == nullptr ? first_ : last_->progress.next) = &request;
    last_ = &request;
  }
  Request* pop() {
    Request* const request = first_;
    if (request == nullptr) return nullptr;
    first_ = request->progress.next;
    if (first_ == nullptr) last_ = nullptr;
    request->progress.next = nullptr;
    return request;
  }

 private:
  Request* first_ = nullptr;
  Request* last_ = nullptr;
};

}  // namespace uroce::nvmf
