#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::wire {

/// icrc_of() what is not there: what the ICRC of a payload begins with that is to be joined to that of what
/// stands before it.
inline constexpr uint32_t kIcrcOfNothing = ~uint32_t{0};

/// Joins the two for payloads of one length, so that neither has to wait for the other: headers that have
/// just been written, in fields, cannot be read as vectors before all stores in front of them are done, and
/// the payload of the frame before is among these.
class IcrcJoin {
 public:
  /// For payloads of so many bytes, if that is a path MTU; else nullptr. Wants a CPU with copy_with_icrc().
  static const IcrcJoin* of_payload(size_t bytes);

  /// `before`: icrc_of() what stands before; `payload` began with kIcrcOfNothing.
  [[nodiscard]] uint32_t operator()(uint32_t before, uint32_t payload) const;

  // Internal.
  constexpr explicit IcrcJoin(int64_t factor) : factor_(factor) {}

 private:
  int64_t factor_;
};

}  // namespace uroce::wire
