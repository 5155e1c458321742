// The device's coder on a device.
#include "common/codec/cuda/cuda_codec_module.h"
#include "tests/conformance/fragment_coder_suite.h"

namespace longhaul::session {
namespace {

const absl::StatusOr<std::shared_ptr<DeviceCodec>>& Device() {
  static const auto* const device =
      new absl::StatusOr<std::shared_ptr<DeviceCodec>>(LoadCudaCodec(0));
  return *device;
}

std::vector<CoderBackend> Backends() {
  if (!Device().ok()) return {};
  return {{"Cuda", *Device()}};
}

INSTANTIATE_TEST_SUITE_P(Cuda, FragmentCoderSuite, testing::ValuesIn(Backends()),
                         [](const auto& info) { return info.param.name; });

TEST(CudaFragmentCoder, ThereIsADeviceAndItsModule) {
  if (absl::IsFailedPrecondition(Device().status())) GTEST_SKIP() << Device().status().message();
  EXPECT_TRUE(Device().ok()) << Device().status();
}

}  // namespace
}  // namespace longhaul::session
