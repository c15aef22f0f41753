// XRC: domains, their shared receive queues, and target queue pairs with several handles.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <compare>
#include <list>
#include <map>
#include <mutex>
#include <optional>

#include "base/process/per_process.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/objects.h"

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
  static PerProcess<FileDomains> all;
  return all.get();
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

/// A domain of a file to which there is no handle is forgotten, unless it has a successor already.
void forget(const FileKey& file) {
  FileDomains& all = file_domains();
  const std::lock_guard guard(all.mutex);
  const auto found = all.domains.find(file);
  if (found != all.domains.end() && found->second.expired()) all.domains.erase(found);
}

struct FileXrcDomain : VerbsXrcDomain {
  FileXrcDomain(std::shared_ptr<engine::Device> its_device, const FileKey& its_file)
      : VerbsXrcDomain(std::move(its_device)), file(its_file) {}
  ~FileXrcDomain() { forget(file); }
  const FileKey file;
};

/// 0 or errno.
int make_domain(VerbsXrcDomain& of) {
  auto made = of.device->create_xrc_domain();
  if (!made) return made.error().code;
  of.domain = std::move(*made);
  return 0;
}

/// Opens the domain of the file, as ibv_open_xrcd(3) says: 0 or errno.
int find_or_make_domain(const VerbsContext& context, int fd, int flags, std::shared_ptr<VerbsXrcDomain>& to) {
  FileKey key{.device = context.device.get()};
  if (const int error = identify(fd, key); error != 0) return error;
  FileDomains& all = file_domains();
  const std::lock_guard guard(all.mutex);
  const auto found = all.domains.find(key);
  if (found != all.domains.end()) to = found->second.lock();
  if (to != nullptr) return (flags & O_EXCL) != 0 ? EINVAL : 0;
  if ((flags & O_CREAT) == 0) return EAGAIN;
  // It ends without the mutex: the caller has it until then.
  to = std::make_shared<FileXrcDomain>(context.device, key);
  if (const int error = make_domain(*to); error != 0) return error;
  all.domains[key] = to;
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
    if (!all_given(wanted)) return fail(EINVAL);
    if (const int error = check(*wanted); error != 0) return fail(error);
    auto xrcd = std::make_unique<VerbsXrcd>();
    const bool of_file = wanted->fd != -1;
    if (!of_file) xrcd->domain = std::make_shared<VerbsXrcDomain>(context.device);
    const int error = of_file ? find_or_make_domain(context, wanted->fd, wanted->oflags, xrcd->domain)
                              : make_domain(*xrcd->domain);
    if (error != 0) return fail(error);
    xrcd->owner = &context;
    xrcd->context = face;
    const std::lock_guard guard(context.domains_mutex);
    xrcd->place = context.xrcds.insert(context.xrcds.end(), xrcd.get());
    context.users.fetch_add(1);
    return xrcd.release();
  });
}

int close_xrcd(ibv_xrcd* face) {
  VerbsXrcd& xrcd = object(face);
  if (!xrcd.owner->alive()) return with_errno(EIO);
  if (xrcd.users.load() != 0) return with_errno(EBUSY);
  VerbsContext& context = *xrcd.owner;
  const std::lock_guard guard(context.domains_mutex);
  context.xrcds.erase(xrcd.place);
  context.users.fetch_sub(1);
  delete &xrcd;
  return 0;
}

int get_srq_num(ibv_srq* face, uint32_t* number) {
  const VerbsSrq& srq = object(face);
  if (!all_given(number)) return with_errno(EINVAL);
  if (!srq.owner->alive()) return with_errno(EIO);
  if (srq.xrcd == nullptr) return with_errno(EINVAL);
  *number = srq.receives->queue.options().xrc.number.value;
  return 0;
}

void XrcTarget::raised(qp::Event event) {
  const std::lock_guard guard(opens_lock);
  for (VerbsQp* open : opens) raise_async_event(*open, event);
}

namespace {

/// Under the domain's mutex. `open`: one entry, of the handle, which has its target.
void enter_handle(VerbsXrcd& xrcd, XrcHandle& handle, std::list<VerbsQp*> open) {
  handle.xrcd = &xrcd;
  xrcd.users.fetch_add(1);
  handle.open = open.begin();
  const std::lock_guard guard(handle.target->opens_lock);
  handle.target->opens.splice(handle.target->opens.end(), open);
}

}  // namespace

void enter_target(VerbsXrcd& xrcd, VerbsQp& qp) {
  std::list<VerbsQp*> open(1, &qp);
  xrcd.domain->targets.emplace(qp.handle->number.value, qp.xrc->target.get());
  qp.xrc->target->handle = qp.handle;
  enter_handle(xrcd, *qp.xrc, std::move(open));
}

bool leave_target(VerbsQp& qp) {
  VerbsXrcDomain& domain = *qp.xrc->xrcd->domain;
  XrcTarget& target = *qp.xrc->target;
  const std::lock_guard guard(domain.mutex);
  {
    const std::lock_guard opens_guard(target.opens_lock);
    target.opens.erase(qp.xrc->open);
  }
  if (!target.opens.empty()) return false;
  domain.targets.erase(target.handle->number.value);
  return true;
}

void leave_xrc_domains(VerbsContext& context) {
  const std::lock_guard guard(context.domains_mutex);
  for (VerbsXrcd* xrcd : context.xrcds) {
    VerbsXrcDomain& domain = *xrcd->domain;
    std::vector<engine::QpSlot*> ended;
    {
      const std::lock_guard targets_guard(domain.mutex);
      for (const auto& [number, target] : domain.targets) {
        const std::lock_guard opens_guard(target->opens_lock);
        target->opens.remove_if([&](const VerbsQp* open) { return open->owner == &context; });
        if (target->opens.empty()) ended.push_back(target->handle);
      }
      std::erase_if(domain.targets, [](const auto& entry) { return entry.second->opens.empty(); });
    }
    for (engine::QpSlot* target : ended) context.device->destroy_queue_pair(*target);
    xrcd->domain.reset();
  }
}

namespace {

int check(const ibv_context* context, const ibv_qp_open_attr& wanted) {
  constexpr uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  constexpr uint32_t kKnown = kNeeded | IBV_QP_OPEN_ATTR_CONTEXT;
  if ((wanted.comp_mask & ~kKnown) != 0) return EOPNOTSUPP;
  const bool good = (wanted.comp_mask & kNeeded) == kNeeded && bits_of(wanted.qp_type) == IBV_QPT_XRC_RECV &&
                    wanted.xrcd != nullptr && wanted.xrcd->context == context;
  return good ? 0 : EINVAL;
}

void fill_face(VerbsQp& qp, ibv_context* context, const ibv_qp_open_attr& wanted) {
  ibv_qp& face = qp.face();
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
    if (!all_given(wanted)) return fail(EINVAL);
    if (const int error = check(face, *wanted); error != 0) return fail(error);
    VerbsXrcd& xrcd = object(wanted->xrcd);
    auto qp = std::make_unique<PlainQp>();
    qp->xrc = std::make_unique<XrcHandle>();
    const std::lock_guard guard(xrcd.domain->mutex);
    const auto found = xrcd.domain->targets.find(wanted->qp_num);
    if (found == xrcd.domain->targets.end()) return fail(EINVAL);
    // Any of its handles keeps the target, and this mutex keeps them.
    qp->xrc->target = found->second->opens.front()->xrc->target;
    std::list<VerbsQp*> open(1, qp.get());
    qp->type = qp::Type::kXrcReceive;
    qp->owner = &context;
    qp->handle = qp->xrc->target->handle;
    fill_face(*qp, face, *wanted);
    enter_handle(xrcd, *qp->xrc, std::move(open));
    return &qp.release()->face();
  });
}

}  // namespace uroce::verbs
