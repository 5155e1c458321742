// What an error of CUDA says of whose fault it is.
#include <gtest/gtest.h>

#include "worker/collective/collective_cuda_status.h"

namespace longhaul {
namespace {

TEST(CudaStatusTest, AFailedDeviceIsThisMachinesUnlessAPeerMayHaveFailedIt) {
  EXPECT_EQ(CudaStatus(cudaErrorLaunchFailure, "copying").code(), absl::StatusCode::kInternal);
  EXPECT_EQ(CollectiveCudaStatus(cudaErrorLaunchFailure, "summing").code(),
            absl::StatusCode::kUnavailable);
}

TEST(CudaStatusTest, AnErrorThatIsToldIsNotFoundByALaterCheck) {
  void* memory = nullptr;
  EXPECT_EQ(CudaStatus(cudaMalloc(&memory, size_t{1} << 60), "allocating").code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(CudaStatusTest, OtherErrorsAreTheSameInCollectives) {
  EXPECT_TRUE(CollectiveCudaStatus(cudaSuccess, "summing").ok());
  for (const cudaError_t error :
       {cudaErrorMemoryAllocation, cudaErrorNoDevice, cudaErrorInsufficientDriver}) {
    EXPECT_EQ(CollectiveCudaStatus(error, "summing"), CudaStatus(error, "summing"));
    EXPECT_NE(CudaStatus(error, "summing").code(), absl::StatusCode::kInternal);
  }
}

}  // namespace
}  // namespace longhaul
