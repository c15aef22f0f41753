#include "apps/launch/explanations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "queue/status_text.h"

namespace uroce::launch {
namespace {

using Kind = Explanation::Kind;

constexpr std::string_view kNever =
    "uroce does not report it; it is of hardware, or of services that uroce does not have.";

constexpr std::array kExplanations = std::to_array<Explanation>({
    {Kind::kCompletionStatus, 0, "IBV_WC_SUCCESS", "The request was performed.", ""},
    {Kind::kCompletionStatus, 1, "IBV_WC_LOC_LEN_ERR",
     "A message was longer than the receive that it came for, and the peer has IBV_WC_REM_INV_REQ_ERR. "
     "Of a READ: the peer's response had another length than was asked for. "
     "Of a datagram that was sent: it is longer than the port's MTU.",
     "the lengths of posted receives and of what the peer sends; both ends' path MTU; the port's MTU"},
    {Kind::kCompletionStatus, 2, "IBV_WC_LOC_QP_OP_ERR",
     "The queue pair cannot do what was posted: a READ or atomic while max_rd_atomic is 0.",
     "max_rd_atomic of ibv_modify_qp, initiator_depth of rdma_connect"},
    {Kind::kCompletionStatus, 3, "IBV_WC_LOC_EEC_OP_ERR", kNever, ""},
    {Kind::kCompletionStatus, 4, "IBV_WC_LOC_PROT_ERR",
     "Local memory could not be used: the L_Key does not stand for it, does not allow the access or "
     "is of another protection domain, or the memory was unmapped while it was registered.",
     "lkey, addr and length of the request; IBV_ACCESS_LOCAL_WRITE where something is "
     "received; counters local_protection_error and memory_gone (uroce stat)"},
    {Kind::kCompletionStatus, 5, "IBV_WC_WR_FLUSH_ERR",
     "Not performed, because the queue pair was in error or was closed when its turn came.",
     "the first completion with another status, of either queue and at the peer; asynchronous events"},
    {Kind::kCompletionStatus, 6, "IBV_WC_MW_BIND_ERR",
     "A bind, a local invalidation or a fast registration was refused.",
     "IBV_ACCESS_MW_BIND and the state of the region; the window's type; the key"},
    {Kind::kCompletionStatus, 7, "IBV_WC_BAD_RESP_ERR",
     "The peer answered with what no request of ours asked for.",
     "whether both ends agree about path MTU and queue pair numbers; a capture"},
    {Kind::kCompletionStatus, 8, "IBV_WC_LOC_ACCESS_ERR",
     "The peer's WRITE with immediate was refused, and this is the receive that it would have completed.",
     "the R_Key that the peer uses, and the rights of its region"},
    {Kind::kCompletionStatus, 9, "IBV_WC_REM_INV_REQ_ERR",
     "The peer refused the request as invalid: longer than its receive, not enabled by its "
     "qp_access_flags, more READs than it answers at once, or an atomic that is not aligned.",
     "the peer's receives, its qp_access_flags, and max_dest_rd_atomic there against max_rd_atomic here"},
    {Kind::kCompletionStatus, 10, "IBV_WC_REM_ACCESS_ERR",
     "The peer refused the R_Key: it does not stand for that memory, does not allow the "
     "access, was invalidated or deregistered, or is of another protection domain.",
     "rkey, remote_addr and length; the access flags and the life of "
     "the peer's region; counter nak_remote_access_sent there"},
    {Kind::kCompletionStatus, 11, "IBV_WC_REM_OP_ERR",
     "The peer could not perform the request for a reason of its "
     "own: the memory of its receive is gone or not writable.",
     "the peer's completion with IBV_WC_LOC_PROT_ERR"},
    {Kind::kCompletionStatus, 12, "IBV_WC_RETRY_EXC_ERR",
     "The peer did not answer, and the request was repeated "
     "retry_cnt times: each time about 4.096 us * 2^timeout and more.",
     "whether the peer's program lives and its queue pair is in RTR or RTS; "
     "dest_qp_num, GID index, path MTU and link MTU of both; loss (counters "
     "ack_timeout and retransmitted_packets here, drop_* there); uroce fault list"},
    {Kind::kCompletionStatus, 13, "IBV_WC_RNR_RETRY_EXC_ERR",
     "The peer had no receive posted each time that a SEND, or a WRITE with immediate, was repeated.",
     "receives of the peer (or of its shared receive queue) against what is sent; "
     "rnr_retry here (7: for ever), min_rnr_timer there; uroce fault list"},
    {Kind::kCompletionStatus, 14, "IBV_WC_LOC_RDD_VIOL_ERR", kNever, ""},
    {Kind::kCompletionStatus, 15, "IBV_WC_REM_INV_RD_REQ_ERR", kNever, ""},
    {Kind::kCompletionStatus, 16, "IBV_WC_REM_ABORT_ERR", kNever, ""},
    {Kind::kCompletionStatus, 17, "IBV_WC_INV_EECN_ERR", kNever, ""},
    {Kind::kCompletionStatus, 18, "IBV_WC_INV_EEC_STATE_ERR", kNever, ""},
    {Kind::kCompletionStatus, 19, "IBV_WC_FATAL_ERR", kNever, ""},
    {Kind::kCompletionStatus, 20, "IBV_WC_RESP_TIMEOUT_ERR", kNever, ""},
    {Kind::kCompletionStatus, 21, "IBV_WC_GENERAL_ERR", kNever, ""},
    {Kind::kCompletionStatus, 22, "IBV_WC_TM_ERR", kNever, ""},
    {Kind::kCompletionStatus, 23, "IBV_WC_TM_RNDV_INCOMPLETE", kNever, ""},
    {Kind::kErrno, EPERM, "EPERM", "Not allowed to this user.",
     "capabilities; who runs the service (uroce status)"},
    {Kind::kErrno, ENOENT, "ENOENT", "There is nothing of that name or number.", ""},
    {Kind::kErrno, EIO, "EIO", "The device is closed while the object was left.", "asynchronous events"},
    {Kind::kErrno, EAGAIN, "EAGAIN",
     "Not now: a limit for this moment, or the service is away and may come back.", "uroce status"},
    {Kind::kErrno, ENOMEM, "ENOMEM",
     "No memory, or a limit: of RLIMIT_MEMLOCK where memory is registered, of the "
     "queue where a request is posted, of the device where an object is made.",
     "ulimit -l and memory.honour_memlock; completions that were not polled; max_* of ibv_devinfo -v"},
    {Kind::kErrno, EACCES, "EACCES", "This user may not use the service.", "service.users, service.mode"},
    {Kind::kErrno, EFAULT, "EFAULT", "Memory to be registered is not there, or not writable.",
     "the range, and whether its mapping allows what the access flags say"},
    {Kind::kErrno, EBUSY, "EBUSY", "Something still uses the object.",
     "queue pairs of a queue or domain, windows of a region, unacknowledged events"},
    {Kind::kErrno, EEXIST, "EEXIST", "It is there already.", ""},
    {Kind::kErrno, ENODEV, "ENODEV", "No device, or it was opened before fork(), or has gone.",
     "uroce info; UROCE_CONFIG and --config; uroce status"},
    {Kind::kErrno, EINVAL, "EINVAL", "An argument is wrong, or not allowed in the state of the object.",
     "the attributes that the transition of ibv_modify_qp wants (ibv_modify_qp(3)); access flags "
     "that go together (remote write and atomic need local write); sizes against ibv_devinfo -v"},
    {Kind::kErrno, EMFILE, "EMFILE", "No descriptor is left.", "ulimit -n"},
    {Kind::kErrno, ENOSPC, "ENOSPC", "A table is full.", "limits that uroce info shows"},
    {Kind::kErrno, ENOTSUP, "EOPNOTSUPP", "uroce does not have this.",
     "lib/verbs/README.md: what works, and what does not"},
    {Kind::kErrno, EADDRINUSE, "EADDRINUSE", "The port of rdma_cm is another's.", "uroce status"},
    {Kind::kErrno, EADDRNOTAVAIL, "EADDRNOTAVAIL", "It is no address of a device, or no port is left.",
     "ibv_devinfo -v: GIDs"},
    {Kind::kErrno, ENETDOWN, "ENETDOWN", "The service of the host is away.", "uroce status, uroce serve"},
    {Kind::kErrno, ENETUNREACH, "ENETUNREACH", "No way leads to that address.",
     "prefixes, routes and gateway of the device"},
    {Kind::kErrno, ECONNREFUSED, "ECONNREFUSED",
     "The peer rejected the connection: no program listens there.",
     "address, port and port space of the listener"},
    {Kind::kErrno, ETIMEDOUT, "ETIMEDOUT",
     "No answer: of a neighbour, or of the peer's communication manager.",
     "whether the address is on the link, and RoCE (UDP port 4791) gets through"},
    {Kind::kErrno, EHOSTUNREACH, "EHOSTUNREACH", "The address lies in no network of the device.",
     "prefixes, routes and gateway of the device"},
    {Kind::kErrno, EDQUOT, "EDQUOT", "The service gives no more to this program or user.",
     "quotas of [service]"},
});

/// What programs print for it, as libibverbs or the C library says it.
std::string_view printed(const Explanation& one) {
  return one.kind == Kind::kCompletionStatus
             ? std::string_view(queue::kStatusTexts[static_cast<size_t>(one.number)])
             : std::string_view(strerrordesc_np(one.number));
}

std::string in_capitals(std::string_view word) {
  std::string text(word);
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::optional<int> number_in(std::string_view word) {
  int number = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || stop != word.data() + word.size()) return std::nullopt;
  return number;
}

void print(const Explanation& one) {
  const bool status = one.kind == Kind::kCompletionStatus;
  fmt::print("{} ({} {})\n  {}\n", one.name, status ? "completion status" : "errno", one.number, one.meaning);
  if (!one.look_at.empty()) fmt::print("  Look at: {}.\n", one.look_at);
}

}  // namespace

std::span<const Explanation> explanations() { return kExplanations; }

std::vector<Explanation> find_explanations(std::string_view word) {
  const std::string name = in_capitals(word);
  const std::optional<int> number = number_in(word);
  std::vector<Explanation> found;
  for (const Explanation& one : kExplanations) {
    constexpr std::string_view kPrefix = "IBV_WC_";
    const bool prefixed = one.name.starts_with(kPrefix);
    const std::string_view stem = prefixed ? one.name.substr(kPrefix.size()) : std::string_view();
    const bool shortened = prefixed && (stem == name || stem == name + "_ERR");
    // A negative number is an errno as functions return it.
    const bool by_number =
        number && (one.number == *number || (one.kind == Kind::kErrno && one.number == -*number));
    if (one.name == name || shortened || by_number || in_capitals(printed(one)) == name) found.push_back(one);
  }
  return found;
}

int explain(const std::vector<std::string>& words) {
  if (words.empty()) {
    for (const Explanation& one : kExplanations) fmt::print("{:>4} {}\n", one.number, one.name);
    return 0;
  }
  // A sentence need not be quoted.
  const std::string sentence = fmt::format("{}", fmt::join(words, " "));
  const bool is_sentence = words.size() > 1 && !find_explanations(sentence).empty();
  int status = 0;
  for (const std::string& word : is_sentence ? std::vector{sentence} : words) {
    const std::vector<Explanation> found = find_explanations(word);
    for (const Explanation& one : found) print(one);
    if (!found.empty()) continue;
    fmt::print(stderr, "uroce explain: '{}' is no completion status and no errno of verbs\n", word);
    status = 1;
  }
  return status;
}

}  // namespace uroce::launch
