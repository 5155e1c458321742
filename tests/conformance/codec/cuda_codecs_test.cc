// The CUDA kernels on a device.
#include "common/codec/cuda/cuda_codec_module.h"
#include "tests/conformance/codec_cases.h"
#include "tests/testing/device_backed_codec.h"

namespace longhaul::codec_test {
namespace {

const absl::StatusOr<std::shared_ptr<DeviceCodec>>& Device() {
  static const auto* const device =
      new absl::StatusOr<std::shared_ptr<DeviceCodec>>(LoadCudaCodec(0));
  return *device;
}

std::vector<CodecCase> CudaCodecs() {
  if (!Device().ok()) return {};
  std::vector<CodecCase> cases = AllCodecs();
  for (CodecCase& of_kind : cases) {
    of_kind.make = [](const CodecOptions& options) {
      return std::make_unique<testing_support::DeviceBackedCodec>(options, *Device());
    };
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cuda, CodecSuite, testing::ValuesIn(CudaCodecs()),
                         [](const auto& info) { return info.param.name; });

TEST(CudaCodecs, ThereIsADeviceAndItsModule) {
  if (absl::IsFailedPrecondition(Device().status())) GTEST_SKIP() << Device().status().message();
  EXPECT_TRUE(Device().ok()) << Device().status();
}

}  // namespace
}  // namespace longhaul::codec_test
