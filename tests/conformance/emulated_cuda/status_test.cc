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
