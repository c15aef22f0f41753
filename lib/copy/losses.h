#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "copy/message_mark.h"

namespace uroce::copy {

/// Messages of which something could not be placed: the first of each owner and direction, as those behind it
/// are lost with it.
class Losses {
 public:
  static constexpr size_t kMax = 192;  // tails and engine copies of one burst

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::span<const MessageMark> marks() const { return {mark_.data(), count_}; }
  void forget() { count_ = 0; }

  /// `tails_before`: how many uncommitted tails were placed before it.
  void note(const MessageMark& mark, size_t tails_before);
  /// A message behind a lost one must not be seen either, nor the end of the lost one itself.
  [[gnu::cold]] [[nodiscard]] bool before(const MessageMark& mark, size_t tails_before) const;
  /// All tails are committed: what comes now is behind the losses.
  void tails_committed() {
    if (count_ > 0) [[unlikely]]
      std::fill_n(tails_before_.begin(), count_, 0);
  }

 private:
  size_t count_ = 0;
  std::array<MessageMark, kMax> mark_;
  std::array<size_t, kMax> tails_before_;
};

}  // namespace uroce::copy
