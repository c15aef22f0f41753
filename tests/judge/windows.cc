#include "tests/judge/windows.h"

#include <cerrno>

#include "client/failure.h"

namespace uroce::judge {

void Windows::renew() {
  windows_.clear();
  if (!end_.has_windows()) return;
  for (uint32_t i = 0; i <= kWindows; ++i) {
    Window window;
    window.window.reset(ibv_alloc_mw(end_.domain(), IBV_MW_TYPE_2));
    if (!window.window) throw client::failed("ibv_alloc_mw", errno);
    window.key = window.window->rkey;
    windows_.push_back(std::move(window));
  }
}

std::vector<uint32_t> Windows::keys() const {
  std::vector<uint32_t> keys;
  for (const Window& window : windows_) keys.push_back(window.key);
  return keys;
}

void Windows::posted() {
  for (Window& window : windows_) window.window->rkey = window.key;
}

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
  request.bind_mw.rkey = windows_[window].key = ibv_inc_rkey(bound->rkey);
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
  request.invalidate_rkey = windows_[window].key;
  windows_[window].bound = false;
  return request;
}

}  // namespace uroce::judge
