// The codecs that run on a CPU, with both kinds of kernels.
#include <string>
#include <vector>

#include "tests/conformance/codec_cases.h"

namespace longhaul::codec_test {
namespace {

std::vector<CodecCase> CpuCodecs() {
  std::vector<CodecCase> cases;
  for (KernelKind kernels : {KernelKind::kScalar, KernelKind::kSimd}) {
    for (CodecCase kind : AllCodecs()) {
      kind.name += kernels == KernelKind::kScalar ? "Scalar" : "Simd";
      kind.options.kernels = kernels;
      cases.push_back(std::move(kind));
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cpu, CodecSuite, testing::ValuesIn(CpuCodecs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace longhaul::codec_test
