#include "tests/judge/windows.h"

#include <cerrno>

#include "client/failure.h"

namespace uroce::judge {

Windows::Windows(End& end) : end_(end) {
  if (!end.has_windows()) return;
  for (uint32_t i = 0; i <= kWindows; ++i) {
    Window window;
    window.window.reset(ibv_alloc_mw(end.domain(), IBV_MW_TYPE_2));
    if (!window.window) throw client::failed("ibv_alloc_mw", errno);
    windows_.push_back(std::move(window));
  }
}

std::vector<ibv_send_wr> Windows::bind_all(const List& incoming) {
  std::vector<ibv_send_wr> requests;
  if (windows_.empty()) return requests;
  for (uint32_t i = 0; i < kWindows; ++i) requests.push_back(bind(i, incoming.windows[i]));
  return requests;
}

std::vector<uint32_t> Windows::keys() const {
  std::vector<uint32_t> keys;
  for (const Window& window : windows_) keys.push_back(window.window->rkey);
  return keys;
}

ibv_send_wr Windows::bind_spare() { return bind(kWindows, {0, kTargetBytes}); }

std::vector<ibv_send_wr> Windows::invalidate_all() {
  std::vector<ibv_send_wr> requests;
  for (uint32_t i = 0; i < windows_.size(); ++i) {
    if (windows_[i].bound) requests.push_back(invalidate(i));
  }
  return requests;
}

ibv_send_wr Windows::bind(uint32_t window, Range range) {
  ibv_mw* const bound = windows_[window].window.get();
  ibv_send_wr request{};
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = IBV_SEND_SIGNALED;
  request.bind_mw.mw = bound;
  request.bind_mw.rkey = bound->rkey = ibv_inc_rkey(bound->rkey);
  request.bind_mw.bind_info = {
      .mr = &end_.target().region(),
      .addr = end_.target().address() + range.offset,
      .length = range.length,
      .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
  windows_[window].bound = true;
  return request;
}

ibv_send_wr Windows::invalidate(uint32_t window) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_LOCAL_INV;
  request.send_flags = IBV_SEND_SIGNALED;
  request.invalidate_rkey = windows_[window].window->rkey;
  windows_[window].bound = false;
  return request;
}

}  // namespace uroce::judge
