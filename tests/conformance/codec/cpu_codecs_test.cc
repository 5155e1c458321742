// The codecs that run on a CPU, with both kinds of kernels.
#include <string>
#include <vector>

#include "tests/conformance/codec_suite.h"

namespace longhaul::codec_test {
namespace {

std::vector<CodecCase> CpuCodecs() {
  std::vector<CodecCase> cases;
  for (KernelKind kernels : {KernelKind::kScalar, KernelKind::kSimd}) {
    const std::string suffix = kernels == KernelKind::kScalar ? "Scalar" : "Simd";
    const auto options = [&](CodecKind kind, bool search) {
      return CodecOptions{.kind = kind, .search_scale = search, .kernels = kernels};
    };
    cases.push_back({"Fp32" + suffix, options(CodecKind::kFp32, false), 32, 0});
    cases.push_back({"Bf16" + suffix, options(CodecKind::kBf16, false), 16, 0});
    cases.push_back({"E3m0" + suffix, options(CodecKind::kE3m0, false), 4, 1});
    cases.push_back({"E3m0Search" + suffix, options(CodecKind::kE3m0, true), 4, 1});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cpu, CodecSuite, testing::ValuesIn(CpuCodecs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace longhaul::codec_test
