#include "rdmacm/event.h"

#include <algorithm>

namespace uroce::rdmacm {

void Event::keep_connection_data(std::span<const std::byte> data) {
  std::ranges::copy(data, private_data.begin());
  param.conn.private_data = private_data.data();
  param.conn.private_data_len = static_cast<uint8_t>(data.size());
}

void Event::keep_datagram_data(std::span<const std::byte> data) {
  std::ranges::copy(data, private_data.begin());
  param.ud.private_data = private_data.data();
  param.ud.private_data_len = static_cast<uint8_t>(data.size());
}

std::unique_ptr<Event> make_event(rdma_cm_event_type type, int status) {
  auto made = std::make_unique<Event>();
  made->event = type;
  made->status = status;
  return made;
}

}  // namespace uroce::rdmacm
