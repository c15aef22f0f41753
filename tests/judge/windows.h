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
  explicit Windows(End& end);

  /// Requests that bind all but the spare one, signaled.
  std::vector<ibv_send_wr> bind_all(const List& incoming);
  [[nodiscard]] std::vector<uint32_t> keys() const;
  /// By the peer, which has named that one.
  void ended(uint32_t window) { windows_[window].bound = false; }
  [[nodiscard]] uint32_t key(uint32_t window) const { return windows_[window].window->rkey; }

  /// Requests of the spare one.
  ibv_send_wr bind_spare();
  ibv_send_wr invalidate_spare() { return invalidate(kWindows); }
  /// All that are left.
  std::vector<ibv_send_wr> invalidate_all();

 private:
  struct Deallocate {
    void operator()(ibv_mw* window) const { ibv_dealloc_mw(window); }
  };
  struct Window {
    std::unique_ptr<ibv_mw, Deallocate> window;
    bool bound = false;
  };
  ibv_send_wr bind(uint32_t window, Range range);
  ibv_send_wr invalidate(uint32_t window);

  End& end_;
  std::vector<Window> windows_;
};

}  // namespace uroce::judge
