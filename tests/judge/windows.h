#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/judge/end.h"

namespace uroce::judge {

/// The windows of one end over its target: kWindows that the peer may use, bound anew for each round, and the
/// spare one. Those of an end without windows have no keys.
class Windows {
 public:
  explicit Windows(End& end) : end_(end) {}

  /// New ones in place of all. A queue pair that they are bound to may not end before them.
  void renew();

  /// A request, signaled. No two for a window in one ibv_post_send: the library looks at its key of before.
  ibv_send_wr bind(uint32_t window, Range range);
  [[nodiscard]] std::vector<uint32_t> keys() const;
  /// By the peer, which has named that one.
  void ended(uint32_t window) { windows_[window].bound = false; }
  [[nodiscard]] uint32_t key(uint32_t window) const { return windows_[window].key; }

  ibv_send_wr bind_spare() { return bind(kWindows, {0, kTargetBytes}); }
  ibv_send_wr invalidate_spare() { return invalidate(kWindows); }
  /// After each ibv_post_send that binds a window.
  void posted();
  /// All that are left.
  std::vector<ibv_send_wr> invalidate_all();

 private:
  struct Deallocate {
    void operator()(ibv_mw* window) const { ibv_dealloc_mw(window); }
  };
  struct Window {
    std::unique_ptr<ibv_mw, Deallocate> window;
    uint32_t key = 0;
    bool bound = false;
  };
  ibv_send_wr invalidate(uint32_t window);

  End& end_;
  std::vector<Window> windows_;
};

}  // namespace uroce::judge
