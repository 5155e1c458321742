#include "tests/testing/cuda_emulation.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul::cuda_emulation {
namespace {

class CudaEmulationTest : public testing::TestWithParam<Order> {};
INSTANTIATE_TEST_SUITE_P(Orders, CudaEmulationTest,
                         testing::Values(Order::kForwards, Order::kBackwards));

TEST_P(CudaEmulationTest, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> runs(3 * 64);
  ASSERT_TRUE(Launch(3, 64, GetParam(), [&] { ++runs[blockIdx.x * 64 + threadIdx.x]; }).ok());
  EXPECT_THAT(runs, testing::Each(1));
}

TEST_P(CudaEmulationTest, ABarrierSeparatesWritesFromReads) {
  std::vector<int> read(64);
  ASSERT_TRUE(Launch(2, 64, GetParam(), [&] {
                __shared__ int values[64];
                values[threadIdx.x] = static_cast<int>(threadIdx.x);
                __syncthreads();
                read[threadIdx.x] = values[63 - threadIdx.x];
                __syncthreads();
              }).ok());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(read[i], 63 - i);
}

TEST_P(CudaEmulationTest, HalvesOfAWarpExchangeOnTheirOwn) {
  std::vector<float> sums(64);
  std::vector<uint32_t> odd(64), totals(64);
  ASSERT_TRUE(Launch(1, 64, GetParam(), [&] {
                const unsigned t = threadIdx.x;
                const uint32_t mask = 0xffffu << (t & 16);
                // One half of each warp goes round more often than the other.
                for (unsigned round = 0; round < 1 + t / 16; ++round) {
                  float x = static_cast<float>(t);
                  for (int half = 8; half > 0; half /= 2) x += __shfl_xor_sync(mask, x, half, 16);
                  sums[t] = x;
                }
                odd[t] = __ballot_sync(mask, t % 2 == 1);
                totals[t] = __reduce_add_sync(mask, t);
                __syncwarp(mask);
              }).ok());
  for (unsigned t = 0; t < 64; ++t) {
    const unsigned first = t / 16 * 16;
    EXPECT_EQ(sums[t], 16.0f * first + 120);
    EXPECT_EQ(odd[t], 0xaaaau << (t & 16));
    EXPECT_EQ(totals[t], 16 * first + 120);
  }
}

TEST_P(CudaEmulationTest, ABarrierThatNotAllReachIsNoticed) {
  const absl::Status status = Launch(1, 64, GetParam(), [] {
    if (threadIdx.x != 5) __syncthreads();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("63 of 64 wait for ever"));
  // The next kernel is not disturbed.
  int runs = 0;
  EXPECT_TRUE(Launch(1, 64, GetParam(), [&] {
                __syncthreads();
                ++runs;
              }).ok());
  EXPECT_EQ(runs, 64);
}

TEST_P(CudaEmulationTest, AnExchangeThatNotAllReachIsNoticed) {
  EXPECT_FALSE(Launch(1, 32, GetParam(), [] {
                 if (threadIdx.x < 8) __shfl_xor_sync(0xffff, 1, 1, 16);
               }).ok());
  EXPECT_FALSE(Launch(1, 32, GetParam(), [] {
                 if (threadIdx.x % 2 == 0) {
                   __ballot_sync(0xffffffff, true);
                 } else {
                   __syncwarp(0xffffffff);
                 }
               }).ok());
}

TEST_P(CudaEmulationTest, WrongMasksAreNoticed) {
  EXPECT_FALSE(Launch(1, 32, GetParam(), [] { __ballot_sync(0xffff, true); }).ok());
  EXPECT_FALSE(Launch(1, 32, GetParam(), [] {
                 if (threadIdx.x < 16) __shfl_xor_sync(0xffff, 1, 16, 32);
               }).ok());
}

}  // namespace
}  // namespace longhaul::cuda_emulation
