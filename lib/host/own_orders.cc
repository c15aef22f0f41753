#include "host/own_orders.h"

#include <fcntl.h>

namespace uroce::host {

Result<OwnOrders> OwnOrders::make() {
  auto made = make_open_memory(kOrdersName, sizeof(OrdersMemory));
  if (!made) return made.error();
  OwnOrders orders(std::move(*made));
  OrdersMemory& memory = orders.memory();
  memory.head = tool_memory(kOrdersMagic, kOrdersVersion, sizeof(OrdersMemory));
  memory.question.begin();
  return orders;
}

OwnOrders::~OwnOrders() {
  if (mapping_.data() != nullptr) memory().question.end();
}

bool OwnOrders::has_capturer() const {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = kCaptureLock;
  lock.l_len = 1;
  const int descriptor = descriptor_.get();
  return descriptor >= 0 && fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace uroce::host
