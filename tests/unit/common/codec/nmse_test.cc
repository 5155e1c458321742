// Distortion of the codecs on a Gauss and on a Laplace source: NMSE = ||x - deq(Q(x))||^2 /
// ||x||^2. The table of common/codec/README.md.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/codec/codec.h"
#include "common/layout/fragment_layout.h"
#include "tests/conformance/codec_inputs.h"

namespace longhaul {
namespace {

constexpr int64_t kElements = 4 * kTileElements;

double Nmse(const CodecOptions& options, const std::vector<float>& in) {
  const auto codec = MakeCodec(options).value();
  std::vector<uint8_t> payload(codec->PayloadBytes(kTileElements));
  double error = 0, signal = 0;
  for (int64_t first = 0; first < kElements; first += kTileElements) {
    const auto segment = absl::MakeConstSpan(in).subspan(first, kTileElements);
    const auto result = codec->Encode(segment, absl::MakeSpan(payload));
    EXPECT_TRUE(result.ok());
    error += result->error_energy;
    signal += result->signal_energy;
  }
  return error / signal;
}

struct Band {
  CodecOptions options;
  double gauss, laplace;
};

class NmseTest : public testing::TestWithParam<Band> {};

TEST_P(NmseTest, LiesWithinFivePercentOfTheTable) {
  const auto [options, gauss, laplace] = GetParam();
  EXPECT_NEAR(Nmse(options, codec_test::Gaussian(kElements)), gauss, 0.05 * gauss);
  EXPECT_NEAR(Nmse(options, codec_test::Laplace(kElements)), laplace, 0.05 * laplace);
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, NmseTest,
    testing::Values(Band{{.kind = CodecKind::kFp32}, 0, 0},
                    Band{{.kind = CodecKind::kBf16}, 2.75e-6, 2.75e-6},
                    Band{{.kind = CodecKind::kE3m0}, .0370, .0344},
                    Band{{.kind = CodecKind::kE3m0, .search_scale = true}, .0318, .0298}),
    [](const auto& info) {
      return std::string(CodecName(info.param.options.kind)) +
             (info.param.options.search_scale ? "Search" : "");
    });

}  // namespace
}  // namespace longhaul
