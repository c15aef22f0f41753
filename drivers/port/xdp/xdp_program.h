#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/process/uninherited_descriptor.h"
#include "base/values/identifiers.h"
#include "base/values/result.h"

struct bpf_object;

namespace uroce::drivers {

/// The program of roce.bpf.c on an interface of the kernel. It is there by a bpf_link of this process, so the
/// kernel takes it away when the process ends, however that happens; its forked children do not have the
/// link. Control path.
class XdpProgram {
 public:
  /// What the program is executed by: the interface's driver, or the kernel's receive path behind it
  /// ("generic", any interface).
  enum class Mode : uint8_t { kNative, kGeneric };

  struct Place {
    std::string interface;
    unsigned index = 0;  // of the interface
    uint16_t queues = 1;
    bool generic = true;  // will do, where there is no other
  };

  /// On all queues, of which `where` has so many. Errors begin with the interface's name: EBUSY (another XDP
  /// program is there; its name is told), EPERM, ENOTSUP.
  static Result<std::unique_ptr<XdpProgram>> attach(const Place& where);
  ~XdpProgram();
  XdpProgram(const XdpProgram&) = delete;
  XdpProgram& operator=(const XdpProgram&) = delete;

  [[nodiscard]] Mode mode() const { return mode_; }
  /// Why it is not native; empty if it is.
  [[nodiscard]] const std::string& why_generic() const { return why_generic_; }
  /// RoCE that comes in by that queue goes into the socket from now on.
  Status deliver(uint16_t queue, int socket);
  /// RoCE to these addresses is ours from now on, and to no others.
  Status follow(std::span<const Gid> addresses);

 private:
  explicit XdpProgram(bpf_object* object) : object_(object) {}
  Status load(uint16_t queues);
  Status link(const Place& where);

  bpf_object* const object_;
  int program_ = -1;  // of the object, as the maps
  int sockets_ = -1;
  int addresses_ = -1;
  UninheritedDescriptor link_;
  Mode mode_ = Mode::kNative;
  std::string why_generic_;
};

}  // namespace uroce::drivers
