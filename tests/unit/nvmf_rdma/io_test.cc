#include <algorithm>

#include "exported.h"

// Commands over RDMA, each way that data can go.
namespace uroce::testing {
namespace {

using nvmf::StatusCode;
using Io = Exported;

TEST_F(Io, FirstCommands_ExpectIdentifyAndWhatWasWrittenToBeRead) {
  open();
  RdmaSession session(host());
  nvmf::Command identify = command::identify(nvmf::IdentifyCode::kController);
  identify.sgl = session.admin().host_memory(0, 4096);
  const auto identified = session.admin().run(identify);
  ASSERT_TRUE(identified);
  EXPECT_EQ(code_of(*identified), StatusCode::kSuccess);
  const std::string_view subsystem(reinterpret_cast<const char*>(session.admin().memory(0).data()) + 768);
  EXPECT_EQ(subsystem, kDisks);

  RdmaHostQueue& queue = session.connect_io(1);
  for (const uint32_t nsid : {kRam, kFile}) {
    for (const uint32_t bytes : {512u, 4096u, 65536u, 131072u}) {
      SCOPED_TRACE(::testing::Message() << "namespace " << nsid << ", " << bytes << " bytes");
      fill(queue.memory(0).first(bytes), bytes + nsid);
      const auto written = queue.run(io(queue, command::kWrite, nsid, 8, bytes));
      ASSERT_TRUE(written);
      EXPECT_EQ(code_of(*written), StatusCode::kSuccess);
      const auto compared = queue.run(io(queue, command::kCompare, nsid, 8, bytes));
      ASSERT_TRUE(compared);
      EXPECT_EQ(code_of(*compared), StatusCode::kSuccess);
      std::ranges::fill(queue.memory(0), std::byte{});
      const auto read = queue.run(io(queue, command::kRead, nsid, 8, bytes));
      ASSERT_TRUE(read);
      EXPECT_EQ(code_of(*read), StatusCode::kSuccess);
      EXPECT_TRUE(is_filled(queue.memory(0).first(bytes), bytes + nsid));
    }
  }
}

}  // namespace
}  // namespace uroce::testing
