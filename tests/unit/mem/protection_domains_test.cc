#include "mem/keys/protection_domains.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <thread>
#include <vector>

namespace uroce::mem {
namespace {

TEST(ProtectionDomains, AllocateAndFree_ExpectNumbersThatAreNeverNone) {
  ProtectionDomains domains(2);
  const DomainId first = domains.allocate().value();
  const DomainId second = domains.allocate().value();
  EXPECT_NE(first, DomainId{});
  EXPECT_NE(second, DomainId{});
  EXPECT_NE(first, second);
  EXPECT_EQ(domains.allocate().error().code, ENOMEM);
  EXPECT_TRUE(domains.free(first).ok());
  EXPECT_EQ(domains.count(), 1u);
  const DomainId third = domains.allocate().value();
  EXPECT_NE(third, first);  // what still names the first by mistake must not match
}

TEST(ProtectionDomains, FreeWhileSomethingLivesInIt_ExpectEbusy) {
  ProtectionDomains domains(8);
  const DomainId domain = domains.allocate().value();
  ASSERT_TRUE(domains.enter(domain).ok());
  ASSERT_TRUE(domains.enter(domain).ok());
  EXPECT_EQ(domains.free(domain).error().code, EBUSY);
  domains.leave(domain);
  EXPECT_EQ(domains.free(domain).error().code, EBUSY);
  domains.leave(domain);
  EXPECT_TRUE(domains.free(domain).ok());
}

TEST(ProtectionDomains, NameADomainThatIsNotThere_ExpectEinval) {
  ProtectionDomains domains(8);
  EXPECT_EQ(domains.free(DomainId{}).error().code, EINVAL);
  EXPECT_EQ(domains.enter(DomainId{7}).error().code, EINVAL);
  const DomainId domain = domains.allocate().value();
  ASSERT_TRUE(domains.free(domain).ok());
  EXPECT_EQ(domains.free(domain).error().code, EINVAL);
  EXPECT_EQ(domains.enter(domain).error().code, EINVAL);
}

TEST(ProtectionDomains, ManyThreads_ExpectEveryUseCounted) {
  ProtectionDomains domains(1024);
  const DomainId shared = domains.allocate().value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        const DomainId own = domains.allocate().value();
        EXPECT_TRUE(domains.enter(shared).ok());
        EXPECT_EQ(domains.free(shared).error().code, EBUSY);
        domains.leave(shared);
        EXPECT_TRUE(domains.free(own).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(domains.free(shared).ok());
  EXPECT_EQ(domains.count(), 0u);
}

}  // namespace
}  // namespace uroce::mem
