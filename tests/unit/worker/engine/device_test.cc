#include "worker/engine/device.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "c10/core/impl/VirtualGuardImpl.h"
#include "common/device/cuda_module.h"

namespace longhaul {
namespace {

TEST(DeviceTest, OpensADeviceOrSaysThatThereIsNone) {
  const auto device = OpenCudaDevice(0);
  if (device.ok()) {
    EXPECT_TRUE(device->is_cuda());
    return;
  }
  EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(device.status().message()), testing::StartsWith("no CUDA device"));
  EXPECT_EQ(dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_NOW), nullptr)
      << "a CPU rank must stay small";
}

// Without a guard a kernel is launched on the first device, wherever its memory is.
TEST(DeviceTest, ADeviceThatIsOpenedIsTheThreadsOwn) {
  const absl::StatusOr<int> count = CudaDeviceCount();
  if (!count.ok() || *count == 0) GTEST_SKIP() << "no CUDA device";
  std::thread([last = *count - 1] {
    const auto device = OpenCudaDevice(last);
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ(c10::impl::VirtualGuardImpl(at::kCUDA).getDevice(), *device);
  }).join();
}

TEST(DeviceTest, RefusesADeviceThatIsNotThere) {
  EXPECT_EQ(OpenCudaDevice(4096).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace longhaul
