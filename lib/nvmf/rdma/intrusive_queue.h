#pragma once

namespace uroce::nvmf {

/// First in, first out, of objects with a member `next`, each in one list at most. Owns nothing.
template <typename T>
class IntrusiveQueue {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] T* front() const { return first_; }

  void push(T& one) {
    one.next = nullptr;
    if (first_ == nullptr) {
      first_ = &one;
    } else {
      last_->next = &one;
    }
    last_ = &one;
  }
  /// Null: empty.
  T* pop() {
    T* one = first_;
    if (one != nullptr) first_ = one->next;
    return one;
  }
  /// Takes out all for which `unwanted` says so.
  template <typename Unwanted>
  void remove(Unwanted unwanted) {
    IntrusiveQueue kept;
    while (T* one = pop()) {
      if (!unwanted(*one)) kept.push(*one);
    }
    *this = kept;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;  // means nothing while it is empty
};

}  // namespace uroce::nvmf
