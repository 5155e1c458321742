#include "worker/agent/in_pool_address.h"

#include "common/base/host_port.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(InPoolAddressTest, IsTheAddressFromWhichTheCoordinatorIsReached) {
  EXPECT_EQ(*AddressTowards("127.0.0.1:7070"), "127.0.0.1");
  EXPECT_TRUE(absl::IsInvalidArgument(AddressTowards("localhost").status()));
  EXPECT_TRUE(absl::IsUnavailable(AddressTowards("nowhere.invalid:7070").status()));
}

TEST(InPoolAddressTest, TheOuterAddressIsOneThatOthersReach) {
  const absl::StatusOr<std::string> address = OuterAddress();
  if (!address.ok()) {
    EXPECT_TRUE(absl::IsNotFound(address.status())) << address.status();
    return;
  }
  EXPECT_FALSE(IsLoopback(*address));
  EXPECT_NE(*InterfaceOf(*address), "lo");
}

TEST(InPoolAddressTest, BelongsToAnInterface) {
  EXPECT_EQ(*InterfaceOf("127.0.0.1"), "lo");
  EXPECT_EQ(*InterfaceOf("127.0.0.2"), "lo");
  EXPECT_TRUE(absl::IsInvalidArgument(InterfaceOf("localhost").status()));
  EXPECT_TRUE(absl::IsNotFound(InterfaceOf("192.0.2.1").status())) << "kept for documents";
}

}  // namespace
}  // namespace longhaul
