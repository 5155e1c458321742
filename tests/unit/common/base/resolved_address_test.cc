#include "common/base/resolved_address.h"

#include <netinet/in.h>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(ResolvedAddressTest, HasThePort) {
  const auto found = Resolve({"127.0.0.1", 80});
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ((*found)->ai_family, AF_INET);
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in*>((*found)->ai_addr)->sin_port), 80);
  EXPECT_EQ((*found)->ai_next, nullptr);
}

TEST(ResolvedAddressTest, SaysTheResolversWords) {
  const absl::Status refused = Resolve({"a-name", 80}, {.flags = AI_NUMERICHOST}).status();
  EXPECT_EQ(refused, absl::UnavailableError("Name or service not known"));
}

}  // namespace
}  // namespace longhaul
