#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/process/forks.h"
#include "base/tables/pooled.h"
#include "engine/device/device.h"
#include "engine/poller/device_events.h"
#include "qp/attributes/attributes.h"
#include "queue/completion_queue.h"
#include "queue/work_request.h"
#include "verbs/calls/call_lock.h"
#include "verbs/calls/domains.h"
#include "verbs/calls/event_pipe.h"

// The objects behind the pointers that the application holds. Each but the queue pair begins with the C
// structure, so that a pointer to one is a pointer to the other.

namespace uroce::verbs {

/// One per configured device and process, never freed. What follows `face` is shaped as rdma-core's own
/// structure, because libmlx5 and libefa read the pointer behind ibv_device to see whose device it is.
struct VerbsDevice {
  ibv_device face{};
  const void* provider_ops = nullptr;
  int references = 1;
  void* neighbours[2] = {nullptr, nullptr};
  void* sysfs = nullptr;
  uint64_t flags = 0;

  size_t index = 0;  // in the configuration
  std::atomic<uint64_t> guid{0};
};

struct VerbsContext;

/// Puts a device's events among the asynchronous ones of a context.
class DeviceEventNotifier final : public engine::DeviceListener {
 public:
  explicit DeviceEventNotifier(VerbsContext& context) : context_(context) {}
  void raised(engine::DeviceEvent event) override;
  bool contested(const Gid& address, MacAddress by) override;

 private:
  VerbsContext& context_;
};

struct VerbsXrcd;

struct VerbsContext : verbs_context {
  VerbsContext() : verbs_context{} {}

  std::shared_ptr<engine::Device> device;
  static constexpr uint32_t kClosed = UINT32_MAX;
  std::atomic<uint32_t> birth{0};  // fork_count(), or kClosed
  std::atomic<uint32_t> users{0};  // domains of both kinds, completion queues and their channels
  std::mutex domains_mutex;
  std::list<DomainId> domains;  // under the mutex, like the next
  std::list<VerbsXrcd*> xrcds;
  EventPipe async_events{sizeof(ibv_async_event)};
  DeviceEventNotifier notifier{*this};

  /// False in a child of the process that opened the device, and when it was closed although objects of it
  /// were left: nothing of it can be used. Relaxed, both: a thread that is told of neither has no business
  /// here.
  [[nodiscard]] bool alive() const { return birth.load(std::memory_order_relaxed) == fork_count(); }
};

struct VerbsMr : ibv_mr {
  /// What the region was made with. Those of the face are the application's to spoil.
  MemoryKey key;
  /// Ends the region, of whatever kind: 0, or why it lives on. Kinds with more to them derive from this.
  int (*end)(VerbsMr& mr) = nullptr;
  void (*free)(VerbsMr* mr) = [](VerbsMr* mr) { delete mr; };
};

struct VerbsAh : ibv_ah {
  qp::DatagramAddress address;  // but for numbers and Q_Key
  uint32_t flow_label = 0;
};

struct VerbsChannel : ibv_comp_channel {
  EventPipe events{sizeof(ibv_cq*)};
};

struct VerbsCq;

/// Puts an event on the completion channel; called by pollers.
class CompletionNotifier final : public queue::CompletionListener {
 public:
  explicit CompletionNotifier(VerbsCq& cq) : cq_(cq) {}
  void completed(queue::CompletionQueue& queue) override;

 private:
  VerbsCq& cq_;
};

/// Raises the event of a completion queue that has no room; called by pollers.
class OverrunNotifier final : public queue::OverrunListener {
 public:
  explicit OverrunNotifier(VerbsCq& cq) : cq_(cq) {}
  void overran(queue::CompletionQueue& queue) override;

 private:
  VerbsCq& cq_;
};

struct VerbsCq : Pooled {
  union {
    ibv_cq face;
    ibv_cq_ex face_extended;
  };
  VerbsCq() : face_extended{} {}

  CallLock poll_lock;
  queue::Completion current{};  // that an extended queue's reader looks at, under poll_lock
  engine::Device* device = nullptr;
  VerbsContext* owner = nullptr;
  VerbsPd* parent_domain = nullptr;
  std::unique_ptr<DomainMemory> memory;
  std::unique_ptr<queue::CompletionQueue> queue;
  std::atomic<uint32_t> users{0};  // sides of queue pairs
  CompletionNotifier notifier{*this};
  std::atomic<uint32_t> events_sent{0};
  std::atomic<uint32_t> events_unread{0};
  std::atomic<uint32_t> async_events_sent{0};
  OverrunNotifier overrun_notifier{*this};
};

struct VerbsSrq;

/// Raises the event of a shared receive queue that runs dry; called by its poller.
class LimitNotifier final : public queue::LimitListener {
 public:
  explicit LimitNotifier(VerbsSrq& srq) : srq_(srq) {}
  void limit_reached(queue::SharedReceiveQueue& queue) override;

 private:
  VerbsSrq& srq_;
};

struct XrcTarget;

/// An XRC domain behind all handles to it: there are several when it belongs to a file.
struct VerbsXrcDomain {
  explicit VerbsXrcDomain(std::shared_ptr<engine::Device> its_device) : device(std::move(its_device)) {}
  ~VerbsXrcDomain() {
    if (domain != nullptr) device->destroy_xrc_domain(std::move(domain));
  }

  std::shared_ptr<engine::Device> device;
  std::unique_ptr<engine::XrcDomain> domain;
  std::mutex mutex;  // of what is below it, the list of handles to a target included
  std::unordered_map<uint32_t, XrcTarget*> targets;  // by the number of the queue pair
};

struct VerbsXrcd : ibv_xrcd {
  VerbsContext* owner = nullptr;
  std::shared_ptr<VerbsXrcDomain> domain;
  std::atomic<uint32_t> users{0};  // shared receive queues and target queue pairs made with this handle
  std::list<VerbsXrcd*>::iterator place;  // among its context's
};

struct VerbsSrq : ibv_srq, Pooled {
  VerbsSrq() : ibv_srq{} {}

  VerbsContext* owner = nullptr;
  VerbsXrcd* xrcd = nullptr;  // of XRC, like the next
  VerbsCq* cq = nullptr;
  std::unique_ptr<DomainMemory> memory;
  std::unique_ptr<engine::SharedReceives> receives;
  std::mutex changes;              // serialises those of the depth; taken before the next
  CallLock lock;                   // of posting
  std::atomic<uint32_t> users{0};  // queue pairs
  LimitNotifier notifier{*this};
  std::atomic<uint32_t> async_events_sent{0};
};

struct VerbsQp;

/// A target queue pair of an XRC domain behind all handles to it (ibv_open_qp), each of which hears of its
/// events.
struct XrcTarget final : qp::EventListener {
  void raised(qp::Event event) override;

  engine::QpSlot* handle = nullptr;
  std::mutex mutex;       // of control calls, whatever the handle
  ibv_ah_attr address{};  // as it was given, for ibv_query_qp
  CallLock opens_lock;
  /// Under the domain's mutex and the lock above; for pollers one of them is enough.
  std::list<VerbsQp*> opens;
};

/// What a handle to an XRC target has beside that of any queue pair.
struct XrcHandle {
  std::shared_ptr<XrcTarget> target;
  VerbsXrcd* xrcd = nullptr;
  std::list<VerbsQp*>::iterator open;  // among the target's
};

/// What ibv_query_qp tells of the queues, and posting checks: ibv_qp_cap, as small as its values are.
struct QueueLimits {
  uint16_t send_requests = 0;
  uint16_t receive_requests = 0;
  uint16_t inline_bytes = 0;
  uint8_t send_segments = 0;
  uint8_t receive_segments = 0;

  static_assert(engine::Limits::kWorkRequests <= UINT16_MAX && engine::Limits::kInlineBytes <= UINT16_MAX &&
                engine::Limits::kSegments <= UINT8_MAX);
};

/// A queue pair. Its C structure lies behind it, the one of the two that the program asked for (PlainQp,
/// ExtendedQp): a program with very many queue pairs has plain ones, which are less than half as long.
struct VerbsQp : qp::EventListener, Pooled {
  virtual ~VerbsQp() = default;
  /// Puts the event among the asynchronous ones; called by the poller.
  void raised(qp::Event event) override;

  [[nodiscard]] ibv_qp& face() { return *reinterpret_cast<ibv_qp*>(this + 1); }
  [[nodiscard]] const ibv_qp& face() const { return *reinterpret_cast<const ibv_qp*>(this + 1); }
  /// The lock of control calls, which is that of the acknowledged events, too, but for an XRC target, whose
  /// handles share one.
  [[nodiscard]] pthread_mutex_t& control_mutex() {
    return xrc != nullptr ? *xrc->target->mutex.native_handle() : face().mutex;
  }
  /// The address vector as ibv_modify_qp was given it, for ibv_query_qp; under control_mutex().
  [[nodiscard]] ibv_ah_attr& address() { return xrc != nullptr ? xrc->target->address : own_address; }

  ibv_ah_attr own_address{};
  std::unique_ptr<DomainMemory> memory;
  std::unique_ptr<XrcHandle> xrc;
  // What posts read comes last, beside the context in the C structure.
  QueueLimits limits;
  std::atomic<uint32_t> async_events_sent{0};
  qp::Type type = qp::Type::kRc;
  const bool extended;  // an ExtendedQp, made for ibv_wr_*
  bool signal_all = false;
  std::atomic<uint8_t> state{IBV_QPS_RESET};  // as the application knows it; the poller may already be in ERR
  VerbsContext* owner = nullptr;
  engine::QpSlot* handle = nullptr;
  CallLock send_lock;
  CallLock receive_lock;

 protected:
  explicit VerbsQp(bool is_extended) : extended(is_extended) {}
};

struct PlainQp final : VerbsQp {
  PlainQp() : VerbsQp(false) {}

  ibv_qp plain_face{};
};

struct ExtendedQp final : VerbsQp {
  ExtendedQp() : VerbsQp(true) {}

  ibv_qp_ex extended_face{};
  // Under send_lock, between start and complete:
  queue::SendRequest* request = nullptr;  // that is being described
  int list_error = 0;                     // why the list will not be posted
};

/// Holds the lock of control calls. It may be held for as long as an address takes to be resolved.
class ControlGuard {
 public:
  explicit ControlGuard(VerbsQp& qp) : mutex_(qp.control_mutex()) { pthread_mutex_lock(&mutex_); }
  ~ControlGuard() { pthread_mutex_unlock(&mutex_); }
  ControlGuard(const ControlGuard&) = delete;
  ControlGuard& operator=(const ControlGuard&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

inline VerbsDevice& object(ibv_device* device) { return *reinterpret_cast<VerbsDevice*>(device); }
inline VerbsContext& object(ibv_context* context) {
  auto* whole = reinterpret_cast<std::byte*>(context) - offsetof(verbs_context, context);
  return *static_cast<VerbsContext*>(reinterpret_cast<verbs_context*>(whole));
}
inline VerbsTd& object(ibv_td* td) { return *static_cast<VerbsTd*>(td); }
inline VerbsPd& object(ibv_pd* pd) { return *static_cast<VerbsPd*>(pd); }
inline VerbsMr& object(ibv_mr* mr) { return *static_cast<VerbsMr*>(mr); }
inline VerbsAh& object(ibv_ah* ah) { return *static_cast<VerbsAh*>(ah); }
inline VerbsChannel& object(ibv_comp_channel* channel) { return *static_cast<VerbsChannel*>(channel); }
inline VerbsCq& object(ibv_cq* cq) { return *reinterpret_cast<VerbsCq*>(cq); }
inline VerbsCq& object(ibv_cq_ex* cq) { return *reinterpret_cast<VerbsCq*>(cq); }
inline VerbsXrcd& object(ibv_xrcd* xrcd) { return *static_cast<VerbsXrcd*>(xrcd); }
inline VerbsSrq& object(ibv_srq* srq) { return *static_cast<VerbsSrq*>(srq); }
inline VerbsQp& object(ibv_qp* qp) { return *(reinterpret_cast<VerbsQp*>(qp) - 1); }
inline ExtendedQp& object(ibv_qp_ex* qp) { return static_cast<ExtendedQp&>(object(&qp->qp_base)); }
// face() and object() count on it.
static_assert(sizeof(PlainQp) == sizeof(VerbsQp) + sizeof(ibv_qp));
static_assert(sizeof(ExtendedQp) == sizeof(VerbsQp) + sizeof(ibv_qp_ex) + 16);

// What the context's table of operations points to.
ibv_mr* alloc_null_mr(ibv_pd* pd);
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
int poll_cq(ibv_cq* cq, int entries, ibv_wc* completions);
int req_notify_cq(ibv_cq* cq, int solicited_only);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* wanted);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* wanted);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* wanted);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* wanted);
/// What a queue pair may have beyond what ibv_create_qp_ex can say.
struct QpExtras {
  bool reserved_lkey = false;
  bool extended = false;     // for ibv_wr_*
  ibv_xrcd* xrcd = nullptr;  // of an XRC target
};
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* wanted, const QpExtras& extras);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes, size_t bytes);
int query_rt_values(ibv_context* context, ibv_values_ex* values);
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* list, uint32_t count);
int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes, size_t bytes);

// What the plain and the extended kind of an object have in common. NULL and errno; bad_alloc may be thrown.
/// `parent_domain`: or nullptr.
ibv_cq* create_cq(ibv_context* context, uint32_t entries, void* cq_context, ibv_comp_channel* channel,
                  VerbsPd* parent_domain = nullptr);
/// `pd` is nullptr for an XRC target.
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr& wanted, const QpExtras& extras);
/// 0, or why there are no queue pairs of that type, which may be no value of ibv_qp_type.
int check_type(unsigned type);

// XRC.
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* wanted);
int close_xrcd(ibv_xrcd* xrcd);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* wanted);
int get_srq_num(ibv_srq* srq, uint32_t* number);
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* wanted);
/// The first handle to a new target, while its domain's mutex is held (bad_alloc: nothing has happened), and
/// one that goes: true for the last, with which the target goes.
void enter_target(VerbsXrcd& xrcd, VerbsQp& qp);
bool leave_target(VerbsQp& qp);
/// The context is closed: its handles to targets and domains go.
void leave_xrc_domains(VerbsContext& context);

/// A region that was made joins its domain and is ready for the application.
void fill_region(VerbsMr& mr, ibv_pd* pd, MemoryKey key, int (*end)(VerbsMr& mr));

/// Made by ibv_reg_mr or a relative of it.
bool is_user_region(const VerbsMr& mr);
/// Made by urocedv_alloc_mr.
bool is_fast_region(const VerbsMr& mr);
/// What names a region to a work request that was posted now: of one for fast registration the application
/// chooses the low eight bits.
inline MemoryKey current_key(const VerbsMr& mr) {
  return is_fast_region(mr) ? MemoryKey::make(mr.key.index(), static_cast<uint8_t>(mr.lkey)) : mr.key;
}

inline unsigned int flags_of(const queue::Completion& completion) {
  return (completion.has_grh ? unsigned{IBV_WC_GRH} : 0U) |
         (completion.has_immediate ? unsigned{IBV_WC_WITH_IMM} : 0U) |
         (completion.has_invalidated ? unsigned{IBV_WC_WITH_INV} : 0U);
}

/// ibv_modify_qp's values as the stack's; 0 or EINVAL, EOPNOTSUPP.
int translate(const VerbsQp& qp, const ibv_qp_attr& from, qp::AttributeMask mask, qp::Attributes& to);

/// An address vector as a path without MACs, 0 or EINVAL. On Ethernet it is made of two GIDs and must have
/// them.
int translate(const ibv_ah_attr& from, const net::GidTable& gids, wire::Path& to);

/// Queues an event of the object for ibv_get_async_event. Any thread.
void raise_async_event(VerbsCq& cq, ibv_event_type type);
void raise_async_event(VerbsSrq& srq, ibv_event_type type);
void raise_async_event(VerbsQp& qp, qp::Event event);

/// What every destroy verb does with the events of a dying object: takes out of the pipe those that no thread
/// has read and waits until the others are acknowledged.
void await_async_acknowledgements(VerbsCq& cq);
void await_async_acknowledgements(VerbsQp& qp);
void await_async_acknowledgements(VerbsSrq& srq);

}  // namespace uroce::verbs
