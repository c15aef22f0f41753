#include "drivers/port/xdp/xdp_program.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "drivers/roce_bpf.h"

namespace uroce::drivers {
namespace {

int print_nothing(libbpf_print_level, const char*, va_list) { return 0; }

/// What goes wrong is ours to tell, in one line.
class Silence {
 public:
  Silence() : before_(libbpf_set_print(print_nothing)) {}
  ~Silence() { libbpf_set_print(before_); }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  const libbpf_print_fn_t before_;
};

std::string reason(int code) { return std::strerror(code < 0 ? -code : code); }

std::string name_of_program(uint32_t id) {
  const std::string number = "number " + std::to_string(id);
  const int program = bpf_prog_get_fd_by_id(id);
  if (program < 0) return number;
  bpf_prog_info info{};
  uint32_t bytes = sizeof info;
  const int failed = bpf_obj_get_info_by_fd(program, &info, &bytes);
  close(program);
  if (failed != 0 || info.name[0] == 0) return number;
  return std::string("'").append(info.name).append("' (").append(number).append(")");
}

/// Whatever mode it is in: the kernel has one program at a time per interface.
Status has_no_program(unsigned index) {
  bpf_xdp_query_opts found{};
  found.sz = sizeof found;
  if (bpf_xdp_query(static_cast<int>(index), 0, &found) != 0) return {};  // then attaching says it
  const uint32_t id = std::max({found.prog_id, found.drv_prog_id, found.hw_prog_id, found.skb_prog_id});
  if (id == 0) return {};
  return Error{EBUSY, "another XDP program is on it: " + name_of_program(id)};
}

}  // namespace

Result<std::unique_ptr<XdpProgram>> XdpProgram::attach(const Place& where) {
  const Silence silence;
  const auto failed = [&](const Status& status) {
    return Error{status.error().code, where.interface + ": " + status.error().message};
  };
  if (const Status alone = has_no_program(where.index); !alone) return failed(alone);
  bpf_object* const object = bpf_object__open_mem(kXdpObject, sizeof kXdpObject, nullptr);
  if (object == nullptr) return failed(Error{errno, "libbpf cannot read its XDP program: " + reason(errno)});
  std::unique_ptr<XdpProgram> program(new XdpProgram(object));
  if (const Status loaded = program->load(where.queues); !loaded) return failed(loaded);
  if (const Status linked = program->link(where); !linked) return failed(linked);
  return program;
}

XdpProgram::~XdpProgram() {
  link_ = UninheritedDescriptor();  // or the program would stay with it
  bpf_object__close(object_);
}

Status XdpProgram::load(uint16_t queues) {
  bpf_map* const sockets = bpf_object__find_map_by_name(object_, "sockets");
  bpf_map* const addresses = bpf_object__find_map_by_name(object_, "addresses");
  bpf_program* const program = bpf_object__find_program_by_name(object_, "roce_to_socket");
  if (sockets == nullptr || addresses == nullptr || program == nullptr)
    return Error{ENOTSUP, "its XDP program is not what it should be"};
  int failed = bpf_map__set_max_entries(sockets, queues);
  if (failed == 0) failed = bpf_object__load(object_);
  if (failed == -EPERM || failed == -EACCES)
    return Error{EPERM, "no permission to load an XDP program (CAP_BPF and CAP_NET_ADMIN are needed)"};
  if (failed != 0) return Error{-failed, "the kernel does not take its XDP program: " + reason(failed)};
  sockets_ = bpf_map__fd(sockets);
  addresses_ = bpf_map__fd(addresses);
  program_ = bpf_program__fd(program);
  return {};
}

Status XdpProgram::link(const Place& where) {
  int failed = 0;
  const auto attach = [&](uint32_t flags) {
    bpf_link_create_opts options{};
    options.sz = sizeof options;
    options.flags = flags;
    link_ = UninheritedDescriptor::opened([&] {
      const int made = bpf_link_create(program_, static_cast<int>(where.index), BPF_XDP, &options);
      failed = std::min(made, 0);
      return Descriptor(made);
    });
  };
  attach(XDP_FLAGS_DRV_MODE);
  if (failed != 0 && failed != -EBUSY && failed != -EEXIST && failed != -EPERM) {
    why_generic_ = failed == -EOPNOTSUPP ? "its driver has no XDP" : "its driver refuses: " + reason(failed);
    if (!where.generic)
      return Error{ENOTSUP, why_generic_ + ", and generic AF_XDP, which mode \"xdp\" takes, is no faster"};
    mode_ = Mode::kGeneric;
    attach(XDP_FLAGS_SKB_MODE);
  }
  if (failed == 0) return {};
  if (failed == -EPERM)
    return Error{EPERM, "no permission to attach an XDP program (CAP_NET_ADMIN is needed)"};
  if (failed == -EBUSY || failed == -EEXIST) return Error{EBUSY, "another XDP program is on it"};
  return Error{-failed, "the kernel does not attach an XDP program: " + reason(failed)};
}

Status XdpProgram::deliver(uint16_t queue, int socket) {
  const uint32_t key = queue;
  const int failed = bpf_map_update_elem(sockets_, &key, &socket, BPF_ANY);
  if (failed != 0) return Error{-failed, "the kernel delivers nothing to its socket: " + reason(failed)};
  return {};
}

Status XdpProgram::follow(std::span<const Gid> addresses) {
  std::vector<Gid> gone;
  Gid key;
  const Gid* before = nullptr;
  for (Gid next; bpf_map_get_next_key(addresses_, before, &next) == 0; before = &key) {
    key = next;
    if (std::ranges::find(addresses, next) == addresses.end()) gone.push_back(next);
  }
  int failed = 0;
  constexpr uint8_t kPresent = 1;
  for (const Gid& address : addresses) {
    const int result = bpf_map_update_elem(addresses_, &address, &kPresent, BPF_ANY);
    if (result != 0) failed = result;
  }
  for (const Gid& address : gone) bpf_map_delete_elem(addresses_, &address);
  if (failed != 0) return Error{-failed, "the kernel does not take an address: " + reason(failed)};
  return {};
}

}  // namespace uroce::drivers
