#include "worker/engine/movement_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ATen/ops/empty.h"
#include "worker/engine/torch_status.h"
#include "worker/movement/emulated_movement.h"

namespace longhaul {
namespace {

TEST(MovementTensorTest, ZerosOutliveTheMovement) {
  at::Tensor tensor;
  {
    EmulatedMovement movement({});
    tensor = ZerosOn(movement, MemorySide::kHost, 1000, at::kBFloat16, at::kCPU, "a test");
  }
  EXPECT_EQ(tensor.numel(), 1000);
  EXPECT_EQ(tensor.scalar_type(), at::kBFloat16);
  for (const uint16_t bits : SpanOf<const uint16_t>(tensor)) ASSERT_EQ(bits, 0);
  EmulatedMovement movement({});
  EXPECT_EQ(ZerosOn(movement, MemorySide::kDevice, 0, at::kFloat, at::kCPU, "none").numel(), 0);
}

TEST(MovementTensorTest, TooLittleMemoryIsAStatusAtTheBoundary) {
  EmulatedMovement movement({.host_bytes_max = 100});
  const absl::Status status = CatchTorch("placing", [&]() -> absl::Status {
    ZerosOn(movement, MemorySide::kHost, 1000, at::kFloat, at::kCPU, "the masters");
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the masters: pinning"));
}

TEST(MovementTensorTest, ABufferIsTheTensorsMemory) {
  const at::Tensor tensor = at::empty({10}, at::kFloat);
  const auto buffer = BufferOn(tensor, MemorySide::kDevice, "ten floats");
  EXPECT_EQ(buffer->as<float>(), tensor.data_ptr());
  EXPECT_EQ(buffer->bytes(), 40);
}

}  // namespace
}  // namespace longhaul
