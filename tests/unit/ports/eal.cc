#include "eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <vector>

namespace uroce::testing {

std::string start_eal() {
  static const std::string outcome = [] {
    int started = -1;
    int code = 0;
    std::thread starter([&] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      std::vector<std::string> arguments = {"test",
                                            "--no-huge",
                                            "-m",
                                            "256",
                                            "--no-shconf",
                                            "--iova-mode=va",
                                            "--no-pci",
                                            "--no-telemetry",
                                            "--log-level=1",
                                            "-l",
                                            "0",
                                            "--file-prefix=uroce_test_" + std::to_string(getpid())};
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      started = rte_eal_init(static_cast<int>(argv.size()), argv.data());
      code = rte_errno;
      // Nothing lies in the runtime folder (no shared configuration); a child that is killed could not remove
      // it.
      if (started >= 0) rmdir(rte_eal_get_runtime_dir());
    });
    starter.join();
    return started < 0 ? std::string("EAL does not start: ") + rte_strerror(code) : std::string();
  }();
  return outcome;
}

}  // namespace uroce::testing
