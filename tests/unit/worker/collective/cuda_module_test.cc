// The module itself, on a machine with or without a driver.
#include "worker/collective/cuda_module.h"

#include <dlfcn.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/in_process_rendezvous.h"

namespace longhaul {
namespace {

TEST(CudaModuleTest, LoadsWithoutADriverAndRefusesADeviceThatIsNotThere) {
  void* module = dlopen(CUDA_MODULE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << dlerror();
  const auto make =
      reinterpret_cast<LonghaulMakeNcclCommunicator*>(dlsym(module, kLonghaulMakeNcclCommunicator));
  ASSERT_NE(make, nullptr);
  InProcessRendezvous rendezvous(1);
  const auto communicator =
      make({.size = 1, .device = 1 << 20, .rendezvous = &rendezvous, .timeout = absl::Seconds(60)});
  EXPECT_TRUE(absl::IsFailedPrecondition(communicator.status())) << communicator.status();
  EXPECT_TRUE(absl::IsInvalidArgument(make({.size = 0, .rendezvous = &rendezvous}).status()));
}

TEST(CudaModuleTest, SaysWhatItCouldNotLoad) {
  if (!CudaDeviceCount().ok()) GTEST_SKIP() << "nothing is loaded on a machine without a driver";
  InProcessRendezvous rendezvous(1);
  const auto communicator =
      MakeNcclCommunicatorFromModule({.size = 1, .rendezvous = &rendezvous}, "/nonexistent");
  EXPECT_TRUE(absl::IsFailedPrecondition(communicator.status()));
  EXPECT_THAT(std::string(communicator.status().message()),
              testing::HasSubstr("liblonghaul_cuda_collective.so"));
}

}  // namespace
}  // namespace longhaul
