#include "worker/collective/nccl_communicator.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/in_process_rendezvous.h"
#include "worker/collective/cuda_module.h"

namespace longhaul {
namespace {

TEST(NcclCommunicatorTest, FailsCleanlyWhereThereIsNoDevice) {
  if (CudaDeviceCount().ok()) GTEST_SKIP() << "this machine has a CUDA device";
  InProcessRendezvous rendezvous(1);
  const auto communicator = MakeNcclCommunicatorFromModule(
      {.size = 1, .rendezvous = &rendezvous, .timeout = absl::Seconds(60)});
  EXPECT_TRUE(absl::IsFailedPrecondition(communicator.status())) << communicator.status();
  EXPECT_THAT(std::string(communicator.status().message()), testing::HasSubstr("no CUDA device"));
}

}  // namespace
}  // namespace longhaul
