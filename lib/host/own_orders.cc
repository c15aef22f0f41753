#include "host/own_orders.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "host/control.h"
#include "host/process_start.h"

namespace uroce::host {

Result<OwnOrders> OwnOrders::make() {
  auto made = make_open_memory(kOrdersName, sizeof(OrdersMemory));
  if (!made) return made.error();
  OwnOrders orders(std::move(*made));
  OrdersMemory& memory = orders.memory();
  memory.bytes = sizeof(OrdersMemory);
  memory.started_ticks = start_of_process(getpid()).value_or(0);
  set_text(memory.program, program_invocation_short_name);
  memory.magic = kOrdersMagic;
  memory.open.store(1, std::memory_order_release);  // pairs with tools: all of the above is there
  return orders;
}

OwnOrders::~OwnOrders() {
  // Release: a tool that sees it closed asks nothing more.
  if (mapping_.data() != nullptr) memory().open.store(0, std::memory_order_release);
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
