#include "worker/engine/device.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(DeviceTest, RefusesADeviceThatIsNotThere) {
  EXPECT_EQ(OpenCudaDevice(4096).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace longhaul
