// The module itself, on a machine with or without a driver.
#include "common/codec/cuda/cuda_codec_module.h"

#include <dlfcn.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(CudaCodecModuleTest, LoadsWithoutADriverAndRefusesADeviceThatIsNotThere) {
  void* module = dlopen(CUDA_CODEC_MODULE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << dlerror();
  const auto make =
      reinterpret_cast<LonghaulMakeCudaRuntime*>(dlsym(module, kLonghaulMakeCudaRuntime));
  ASSERT_NE(make, nullptr);
  const auto runtime = make(1 << 20);
  EXPECT_TRUE(absl::IsFailedPrecondition(runtime.status())) << runtime.status();
  EXPECT_THAT(std::string(runtime.status().message()), testing::StartsWith("no CUDA device"));
}

TEST(CudaCodecModuleTest, SaysWhatItCouldNotLoad) {
  const auto codec = LoadCudaCodec(0, "/nonexistent");
  ASSERT_TRUE(absl::IsFailedPrecondition(codec.status())) << codec.status();
  EXPECT_THAT(std::string(codec.status().message()),
              testing::AnyOf(testing::HasSubstr("no CUDA device"),
                             testing::HasSubstr("liblonghaul_cuda_codec.so")));
}

}  // namespace
}  // namespace longhaul
