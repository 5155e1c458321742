// The Movement of CUDA on an emulated runtime.
#include "cuda_runtime_api.h"
#include "tests/conformance/movement/movement_suite.h"
#include "tests/testing/emulated_cudart.h"
#include "worker/movement/cuda/cuda_movement.h"

namespace longhaul {
namespace {

INSTANTIATE_TEST_SUITE_P(EmulatedCuda, MovementSuite,
                         testing::Values([] { return MakeCudaMovement({}); }));

// The copies' and events' calls fail in turn.
TEST(EmulatedCudaMovementTest, WhatTheDeviceRefusesEndsEveryWait) {
  for (int calls = 0; calls < 6; ++calls) {
    const auto movement = MakeCudaMovement({.timeout = absl::Hours(1)}).value();
    const auto make = [&](MemorySide side) {
      return Arena::Create(*movement, side, 256, "a test")->Take("a buffer", 256);
    };
    const auto from = make(MemorySide::kHost), device = make(MemorySide::kDevice),
               to = make(MemorySide::kHost);
    testing_support::FailEmulatedCudaAfter(calls);
    const MoveToken up = movement->Copy({Direction::kUp}, {from.get(), 0}, {device.get(), 0}, 256);
    const MoveToken work = movement->Compute([](void*) { return absl::OkStatus(); }, {}, {}, {up});
    const MoveToken down =
        movement->Copy({Direction::kDown}, {device.get(), 0}, {to.get(), 0}, 256, {work});
    testing_support::FailEmulatedCudaAfter(-1);
    const auto expected = calls < 5 ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kOk;
    for (const MoveToken& token : {up, work, down})
      EXPECT_EQ(movement->Wait(token, "the test").code(), expected) << calls;
    EXPECT_EQ(movement->WaitAll("the test").code(), expected) << calls;
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << calls;
  }
}

}  // namespace
}  // namespace longhaul
