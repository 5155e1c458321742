#include "worker/offload/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(HostMemoryTest, TooLittleIsRefusedWithTheNumbers) {
  constexpr int64_t kGiB = 1 << 30;
  const OffloadNeed need{.masters = 4 * kGiB, .weights = 2 * kGiB, .optimizer = 10 * kGiB};
  EXPECT_TRUE(CheckHostMemory(need, 2, 32 * kGiB).ok());
  const absl::Status status = CheckHostMemory(need, 3, 32 * kGiB);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* number :
       {"48.0 GiB", "32.0 GiB left", "3 ranks of 16.0 GiB", "masters 4.0 GiB", "device 0.0 MiB"})
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(number));
}

}  // namespace
}  // namespace longhaul
