// Decision: IBV_EVENT_PKEY_CHANGE, SRQ_ERR and WQ_FATAL are never raised. P_Keys are those of the
// configuration, and a receive queue has no memory of its own that could fail.
#include <cerrno>
#include <cstring>

#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/calls/standard_streams.h"
#include "wire/address_text.h"

namespace uroce::verbs {

namespace {

bool names_cq(unsigned type) { return type == IBV_EVENT_CQ_ERR; }

bool names_qp(unsigned type) {
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return true;
    default:
      return false;
  }
}

bool names_srq(unsigned type) { return type == IBV_EVENT_SRQ_LIMIT_REACHED || type == IBV_EVENT_SRQ_ERR; }

bool has_object(const ibv_async_event& event) {
  const unsigned type = bits_of(event.event_type);
  return names_cq(type) || names_qp(type) || names_srq(type);
}

/// Mutex, condition and count of acknowledged events, which each kind of object has under other names.
struct Acknowledgements {
  pthread_mutex_t& mutex;
  pthread_cond_t& condition;
  uint32_t& count;
};

void acknowledge(const Acknowledgements& of) {
  pthread_mutex_lock(&of.mutex);
  ++of.count;
  pthread_cond_signal(&of.condition);
  pthread_mutex_unlock(&of.mutex);
}

void await(const Acknowledgements& of, uint32_t delivered) {
  pthread_mutex_lock(&of.mutex);
  while (of.count != delivered) pthread_cond_wait(&of.condition, &of.mutex);
  pthread_mutex_unlock(&of.mutex);
}

Acknowledgements acknowledgements(ibv_cq& cq) { return {cq.mutex, cq.cond, cq.async_events_completed}; }
Acknowledgements acknowledgements(ibv_srq& srq) { return {srq.mutex, srq.cond, srq.events_completed}; }
Acknowledgements acknowledgements(ibv_qp& qp) { return {qp.mutex, qp.cond, qp.events_completed}; }

}  // namespace

namespace {

void raise(VerbsContext& owner, const ibv_async_event& event, std::atomic<uint32_t>& sent) {
  sent.fetch_add(1);
  if (!owner.async_events.push(&event)) sent.fetch_sub(1);
}

/// `names(event)`: it is one of the object's.
template <typename Names>
void await_all(VerbsContext& owner, const Acknowledgements& of, const std::atomic<uint32_t>& sent,
               Names names) {
  if (sent.load() == 0) return;
  const size_t unread = owner.async_events.remove_if([&](const void* record) {
    ibv_async_event event{};
    std::memcpy(&event, record, sizeof(event));
    return names(event);
  });
  await(of, sent.load() - static_cast<uint32_t>(unread));
}

}  // namespace

void raise_async_event(VerbsCq& cq, ibv_event_type type) {
  ibv_async_event event{};
  event.element.cq = &cq.face;
  event.event_type = type;
  raise(*cq.owner, event, cq.async_events_sent);
}

void OverrunNotifier::overran(queue::CompletionQueue&) { raise_async_event(cq_, IBV_EVENT_CQ_ERR); }

void raise_async_event(VerbsSrq& srq, ibv_event_type type) {
  ibv_async_event event{};
  event.element.srq = &srq;
  event.event_type = type;
  raise(*srq.owner, event, srq.async_events_sent);
}

namespace {

ibv_event_type type_of(qp::Event event) {
  switch (event) {
    case qp::Event::kEstablished:
      return IBV_EVENT_COMM_EST;
    case qp::Event::kSendQueueDrained:
      return IBV_EVENT_SQ_DRAINED;
    case qp::Event::kLastReceive:
      return IBV_EVENT_QP_LAST_WQE_REACHED;
    case qp::Event::kRequestError:
      return IBV_EVENT_QP_REQ_ERR;
    case qp::Event::kAccessError:
      return IBV_EVENT_QP_ACCESS_ERR;
    case qp::Event::kFatal:
      break;
  }
  return IBV_EVENT_QP_FATAL;
}

}  // namespace

void DeviceEventNotifier::raised(engine::DeviceEvent what) {
  ibv_async_event event{};
  event.element.port_num = 1;
  switch (what) {
    case engine::DeviceEvent::kPortActive:
      event.event_type = IBV_EVENT_PORT_ACTIVE;
      break;
    case engine::DeviceEvent::kPortError:
      event.event_type = IBV_EVENT_PORT_ERR;
      break;
    case engine::DeviceEvent::kGidChange:
      event.event_type = IBV_EVENT_GID_CHANGE;
      break;
    case engine::DeviceEvent::kFatal:
      event.element = {};
      event.event_type = IBV_EVENT_DEVICE_FATAL;
      break;
  }
  // These are not acknowledged. A pipe that is full has more to tell than this.
  context_.async_events.push(&event);
}

bool DeviceEventNotifier::contested(const Gid& address, MacAddress by) {
  complain(context_.device->name() + ": " + wire::to_text(address) + " is also used by " + wire::to_text(by),
           context_.device->name());
  return true;
}

void raise_async_event(VerbsQp& qp, qp::Event what) {
  ibv_async_event event{};
  event.element.qp = &qp.face();
  event.event_type = type_of(what);
  raise(*qp.owner, event, qp.async_events_sent);
}

void VerbsQp::raised(qp::Event event) { raise_async_event(*this, event); }

void await_async_acknowledgements(VerbsCq& cq) {
  await_all(*cq.owner, acknowledgements(cq.face), cq.async_events_sent, [&](const ibv_async_event& event) {
    return names_cq(event.event_type) && event.element.cq == &cq.face;
  });
}

void await_async_acknowledgements(VerbsQp& qp) {
  await_all(*qp.owner, acknowledgements(qp.face()), qp.async_events_sent, [&](const ibv_async_event& event) {
    return names_qp(event.event_type) && event.element.qp == &qp.face();
  });
}

void await_async_acknowledgements(VerbsSrq& srq) {
  await_all(*srq.owner, acknowledgements(srq), srq.async_events_sent, [&](const ibv_async_event& event) {
    return names_srq(event.event_type) && event.element.srq == &srq;
  });
}

}  // namespace uroce::verbs

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT int uroce_ibv_get_async_event(ibv_context* face, ibv_async_event* event) {
  if (!all_given(face, event)) return minus_one(EINVAL);
  VerbsContext& context = object(face);
  const int error = context.alive() ? context.async_events.pop(event) : EIO;
  return error == 0 ? 0 : minus_one(error);
}

UROCE_EXPORT void uroce_ibv_ack_async_event(ibv_async_event* event) {
  // Whatever of them it is, a pointer lies there.
  if (event == nullptr || (has_object(*event) && event->element.cq == nullptr))
    return static_cast<void>(with_errno(EINVAL));
  const unsigned type = bits_of(event->event_type);
  if (names_cq(type)) {
    acknowledge(acknowledgements(*event->element.cq));
  } else if (names_qp(type)) {
    acknowledge(acknowledgements(*event->element.qp));
  } else if (names_srq(type)) {
    acknowledge(acknowledgements(*event->element.srq));
  }
}

}  // extern "C"
