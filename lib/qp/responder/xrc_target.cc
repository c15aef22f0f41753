#include "qp/responder/xrc_target.h"

#include "base/values/contract.h"

namespace uroce::qp {

using queue::SharedReceiveQueue;
using queue::SrqNumber;
using queue::XrcIdentity;

SharedReceiveQueue* find_receives(const Connection& connection, SrqNumber number) {
  SharedReceiveQueue* found = connection.transport.xrc_receives->find(number);
  const bool ours = found != nullptr && found->options().xrc.xrc_domain == connection.xrc_domain;
  return ours ? found : nullptr;
}

void turn_to(Connection& connection, SharedReceiveQueue& receives) {
  const XrcIdentity& identity = receives.options().xrc;
  UROCE_ASSERT(connection.is_xrc_target() && identity.xrc_domain == connection.xrc_domain);
  connection.receives.share(&receives);
  connection.user.domain = connection.receive_domain = receives.options().domain;
  connection.receive_completions = identity.completions;
}

void forget_receives(Connection& connection, const SharedReceiveQueue& receives) {
  UROCE_ASSERT(connection.is_xrc_target());
  if (connection.receives.shared() != &receives) return;
  connection.receives.forget_shared();
  // What is left of a SEND that waits for its invalidation is to complete its receive.
  if (connection.waiter == Waiter::kReceive) connection.waiter = Waiter::kNone;
}

mem::KeyUser xrc_user_for(const Connection& connection, SrqNumber number) {
  mem::KeyUser user = connection.key_user();
  const SharedReceiveQueue* found = find_receives(connection, number);
  user.domain = found != nullptr ? found->options().domain : DomainId{};
  return user;
}

}  // namespace uroce::qp
