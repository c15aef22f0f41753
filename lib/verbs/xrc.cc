// XRC: domains, their shared receive queues, and target queue pairs with several handles.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <compare>
#include <map>
#include <mutex>

#include "verbs/call_guard.h"
#include "verbs/objects.h"

namespace uroce::verbs {

namespace {

/// A file of one device. The date of birth tells a file from a later one that got its number.
struct FileKey {
  const engine::Device* device = nullptr;
  uint32_t major = 0;
  uint32_t minor = 0;
  uint64_t inode = 0;
  int64_t born_s = 0;
  uint32_t born_ns = 0;
  [[nodiscard]] auto operator<=>(const FileKey&) const = default;
};

/// The domains of files, of this process: a domain cannot be shared with another one.
struct FileDomains {
  std::mutex mutex;
  std::map<FileKey, std::weak_ptr<VerbsXrcDomain>> domains;
};
FileDomains& file_domains() {
  static FileDomains& all = *new FileDomains;
  return all;
}

/// 0 or EBADF.
int identify(int fd, FileKey& key) {
  struct statx facts {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &facts) != 0) return EBADF;
  key.major = facts.stx_dev_major;
  key.minor = facts.stx_dev_minor;
  key.inode = facts.stx_ino;
  key.born_s = facts.stx_btime.tv_sec;
  key.born_ns = facts.stx_btime.tv_nsec;
  return 0;
}

/// 0 or errno.
int make_domain(const VerbsContext& context, std::shared_ptr<VerbsXrcDomain>& to) {
  to = std::make_shared<VerbsXrcDomain>(context.device);
  auto made = context.device->create_xrc_domain();
  if (!made) return made.error().code;
  to->domain = std::move(*made);
  return 0;
}

/// That of the file, as ibv_open_xrcd(3) says: 0 or errno.
int find_or_make_domain(const VerbsContext& context, int fd, int flags, std::shared_ptr<VerbsXrcDomain>& to) {
  FileKey key{.device = context.device.get()};
  if (const int error = identify(fd, key); error != 0) return error;
  FileDomains& all = file_domains();
  const std::lock_guard guard(all.mutex);
  std::erase_if(all.domains, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<VerbsXrcDomain>& found = all.domains[key];
  to = found.lock();
  if (to != nullptr) return (flags & O_EXCL) != 0 ? EINVAL : 0;
  if ((flags & O_CREAT) == 0) return EAGAIN;
  if (const int error = make_domain(context, to); error != 0) return error;
  found = to;
  return 0;
}

int check(const ibv_xrcd_init_attr& wanted) {
  constexpr uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if ((wanted.comp_mask & ~kNeeded) != 0) return EOPNOTSUPP;
  return wanted.comp_mask == kNeeded ? 0 : EINVAL;
}

}  // namespace

ibv_xrcd* open_xrcd(ibv_context* face, ibv_xrcd_init_attr* wanted) {
  return pointer_or_errno([&]() -> ibv_xrcd* {
    VerbsContext& context = object(face);
    if (!context.alive()) return fail(EIO);
    if (const int error = check(*wanted); error != 0) return fail(error);
    auto xrcd = std::make_unique<VerbsXrcd>();
    const int error = wanted->fd == -1
                          ? make_domain(context, xrcd->domain)
                          : find_or_make_domain(context, wanted->fd, wanted->oflags, xrcd->domain);
    if (error != 0) return fail(error);
    xrcd->owner = &context;
    xrcd->context = face;
    const std::lock_guard guard(context.domains_mutex);
    context.xrcds.push_back(xrcd.get());
    context.users.fetch_add(1);
    return xrcd.release();
  });
}

int close_xrcd(ibv_xrcd* face) {
  VerbsXrcd& xrcd = object(face);
  if (!xrcd.owner->alive()) return EIO;
  if (xrcd.users.load() != 0) return EBUSY;
  VerbsContext& context = *xrcd.owner;
  const std::lock_guard guard(context.domains_mutex);
  std::erase(context.xrcds, &xrcd);
  context.users.fetch_sub(1);
  delete &xrcd;
  return 0;
}

int get_srq_num(ibv_srq* face, uint32_t* number) {
  const VerbsSrq& srq = object(face);
  if (!srq.owner->alive()) return EIO;
  if (srq.xrcd == nullptr) return EINVAL;
  *number = srq.receives->queue.options().xrc.number.value;
  return 0;
}

void XrcTarget::raised(qp::Event event) {
  const std::lock_guard guard(opens_lock);
  for (VerbsQp* open : opens) raise_async_event(*open, event);
}

std::unique_lock<std::mutex> make_room_for_target(VerbsXrcDomain& domain, XrcTarget& target) {
  std::unique_lock guard(domain.mutex);
  domain.targets.reserve(domain.targets.size() + 1);
  target.opens.reserve(1);
  return guard;
}

namespace {

/// Under the domain's mutex, and with room among `opens`.
void enter_handle(VerbsXrcd& xrcd, VerbsQp& qp) {
  qp.xrcd = &xrcd;
  qp.control = &qp.target->control;
  xrcd.users.fetch_add(1);
  const std::lock_guard guard(qp.target->opens_lock);
  qp.target->opens.push_back(&qp);
}

}  // namespace

void enter_target(VerbsXrcd& xrcd, VerbsQp& qp) {
  qp.target->handle = qp.handle;
  enter_handle(xrcd, qp);
  xrcd.domain->targets.push_back(qp.target.get());
}

bool leave_target(VerbsQp& qp) {
  VerbsXrcDomain& domain = *qp.xrcd->domain;
  XrcTarget& target = *qp.target;
  const std::lock_guard guard(domain.mutex);
  {
    const std::lock_guard opens_guard(target.opens_lock);
    std::erase(target.opens, &qp);
  }
  if (!target.opens.empty()) return false;
  std::erase(domain.targets, &target);
  return true;
}

void leave_xrc_domains(VerbsContext& context) {
  const std::lock_guard guard(context.domains_mutex);
  for (VerbsXrcd* xrcd : context.xrcds) {
    VerbsXrcDomain& domain = *xrcd->domain;
    std::vector<engine::QueuePairHandle*> ended;
    {
      const std::lock_guard targets_guard(domain.mutex);
      for (XrcTarget* target : domain.targets) {
        const std::lock_guard opens_guard(target->opens_lock);
        std::erase_if(target->opens, [&](const VerbsQp* open) { return open->owner == &context; });
        if (target->opens.empty()) ended.push_back(target->handle);
      }
      std::erase_if(domain.targets, [](const XrcTarget* target) { return target->opens.empty(); });
    }
    for (engine::QueuePairHandle* target : ended) context.device->destroy_queue_pair(*target);
    xrcd->domain.reset();
  }
}

namespace {

int check(const ibv_context* context, const ibv_qp_open_attr& wanted) {
  constexpr uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  constexpr uint32_t kKnown = kNeeded | IBV_QP_OPEN_ATTR_CONTEXT;
  if ((wanted.comp_mask & ~kKnown) != 0) return EOPNOTSUPP;
  const bool good = (wanted.comp_mask & kNeeded) == kNeeded && wanted.qp_type == IBV_QPT_XRC_RECV &&
                    wanted.xrcd != nullptr && wanted.xrcd->context == context;
  return good ? 0 : EINVAL;
}

void fill_face(VerbsQp& qp, ibv_context* context, const ibv_qp_open_attr& wanted) {
  ibv_qp& face = qp.qp_base;
  face.context = context;
  if ((wanted.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0) face.qp_context = wanted.qp_context;
  face.qp_num = qp.handle->number.value;
  face.handle = face.qp_num;
  face.state = static_cast<ibv_qp_state>(qp.owner->device->query_queue_pair(*qp.handle).state);
  face.qp_type = IBV_QPT_XRC_RECV;
  pthread_mutex_init(&face.mutex, nullptr);
  pthread_cond_init(&face.cond, nullptr);
}

}  // namespace

ibv_qp* open_qp(ibv_context* face, ibv_qp_open_attr* wanted) {
  return pointer_or_errno([&]() -> ibv_qp* {
    VerbsContext& context = object(face);
    if (!context.alive()) return fail(EIO);
    if (const int error = check(face, *wanted); error != 0) return fail(error);
    VerbsXrcd& xrcd = object(wanted->xrcd);
    auto qp = std::make_unique<VerbsQp>();
    const std::lock_guard guard(xrcd.domain->mutex);
    const auto& targets = xrcd.domain->targets;
    const auto found = std::ranges::find_if(
        targets, [&](const XrcTarget* target) { return target->handle->number.value == wanted->qp_num; });
    if (found == targets.end()) return fail(EINVAL);
    // Any of its handles keeps the target, and this mutex keeps them.
    qp->target = (*found)->opens.front()->target;
    {
      const std::lock_guard opens_guard(qp->target->opens_lock);
      qp->target->opens.reserve(qp->target->opens.size() + 1);
    }
    qp->type = qp::Type::kXrcReceive;
    qp->owner = &context;
    qp->handle = qp->target->handle;
    fill_face(*qp, face, *wanted);
    enter_handle(xrcd, *qp);
    return &qp.release()->qp_base;
  });
}

}  // namespace uroce::verbs
