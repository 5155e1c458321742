#include "worker/engine/torch_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ATen/ops/linear.h"
#include "ATen/ops/ones.h"
#include "absl/status/statusor.h"

namespace longhaul {
namespace {

TEST(TorchStatusTest, PassesResultsThrough) {
  EXPECT_EQ(*CatchTorch("counting", []() -> absl::StatusOr<int> { return 3; }), 3);
  EXPECT_EQ(CatchTorch("counting", [] { return absl::UnavailableError("gone"); }),
            absl::UnavailableError("gone"));
}

TEST(TorchStatusTest, ConvertsTorchsErrors) {
  const absl::Status status = CatchTorch("multiplying", [] {
    at::linear(at::ones({2, 3}), at::ones({4, 5}));
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("multiplying: "));
}

TEST(TorchStatusTest, TellsShortMemoryApart) {
  const auto fail = []() -> absl::Status { throw std::bad_alloc(); };
  EXPECT_EQ(CatchTorch("allocating", fail).code(), absl::StatusCode::kResourceExhausted);
  const absl::Status status = CatchTorch("allocating", [] {
    at::ones({int64_t{1} << 50});
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

}  // namespace
}  // namespace longhaul
