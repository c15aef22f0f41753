#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>

#include "tests/nvmf/host.h"
#include "tests/nvmf/scripted_device.h"

namespace uroce::nvmf {

inline std::ostream& operator<<(std::ostream& out, StatusCode code) {
  return out << "status 0x" << std::hex << static_cast<uint32_t>(code) << std::dec;
}

namespace testing_disks {

using namespace uroce::testing;
using block::Operation;
using block::Outcome;

/// A target with one subsystem, which any host may use, and scripted devices.
class Disks : public ::testing::Test {
 protected:
  Disks() {
    const SubsystemOptions options{
        .nqn = kSubsystem, .serial = "S1", .model = "Disk", .allow_any_host = true, .io_queues_max = 8};
    EXPECT_TRUE(target.add_subsystem(options).ok());
  }

  std::shared_ptr<DeviceScript> add(uint32_t nsid, DeviceScript with = {}, NamespaceOptions options = {}) {
    auto script = std::make_shared<DeviceScript>(std::move(with));
    options.nsid = nsid;
    options.device = make_scripted_device(script);
    EXPECT_TRUE(target.add_namespace(kSubsystem, std::move(options)).ok());
    return script;
  }

  Target target{TargetOptions{.firmware = "1.2"}};
};

inline void expect_refused(const Answer& answer, StatusCode code) {
  EXPECT_EQ(answer.code, code);
  EXPECT_TRUE(answer.do_not_retry);
}

}  // namespace testing_disks
}  // namespace uroce::nvmf
