#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace uroce::testing {

/// The calling thread, and no other, is a stranger's as long as this lives. Takes the superuser.
class AsStranger {
 public:
  static constexpr uid_t kUser = 12345;

  // Not by libc's function, which changes all threads.
  explicit AsStranger(uid_t user = kUser) { syscall(SYS_setresuid, -1, user, -1); }
  ~AsStranger() { syscall(SYS_setresuid, -1, 0, -1); }
  AsStranger(const AsStranger&) = delete;
  AsStranger& operator=(const AsStranger&) = delete;
};

}  // namespace uroce::testing
