// Distortion of the codecs on a Gauss and a Laplace source: NMSE = ||x - deq(Q(x))||^2 / ||x||^2.
// It gives the table of common/codec/README.md.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/codec/codec.h"
#include "common/layout/fragment_layout.h"
#include "tests/conformance/codec_inputs.h"

namespace longhaul {
namespace {

constexpr int64_t kElements = 4 * kTileElements;

// Over all elements. The encoder's own figure is an estimate from a part of the blocks.
struct Measured {
  double nmse = 0, estimate = 0;
};

Measured Measure(const CodecOptions& options, const std::vector<float>& in) {
  const auto codec = MakeCodec(options).value();
  std::vector<uint8_t> payload(codec->PayloadBytes(kTileElements));
  std::vector<float> lost(kTileElements);
  double error = 0, signal = 0;
  EncodeResult sum;
  for (int64_t first = 0; first < kElements; first += kTileElements) {
    const auto segment = absl::MakeConstSpan(in).subspan(first, kTileElements);
    const auto result = codec->Encode({segment}, absl::MakeSpan(lost), absl::MakeSpan(payload));
    EXPECT_TRUE(result.ok());
    sum.error_energy += result->error_energy;
    sum.signal_energy += result->signal_energy;
    for (int64_t i = 0; i < kTileElements; ++i) {
      error += static_cast<double>(lost[i]) * lost[i];
      signal += static_cast<double>(segment[i]) * segment[i];
    }
  }
  return {error / signal, sum.error_energy / sum.signal_energy};
}

double Nmse(const CodecOptions& options, const std::vector<float>& in) {
  const Measured measured = Measure(options, in);
  EXPECT_NEAR(measured.estimate, measured.nmse, 0.06 * measured.nmse);
  return measured.nmse;
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
                    Band{{.kind = CodecKind::kE3m0, .search_scale = true}, .0318, .0298},
                    Band{{.kind = CodecKind::kInt8}, 4.3e-5, 8.3e-5},
                    Band{{.kind = CodecKind::kInt6}, 6.9e-4, 1.33e-3},
                    Band{{.kind = CodecKind::kInt4}, .0112, .0210},
                    Band{{.kind = CodecKind::kSign1}, .360, .496},
                    Band{{.kind = CodecKind::kSign1, .rms_scale = true}, .401, .582}),
    [](const auto& info) {
      return std::string(CodecName(info.param.options.kind)) +
             (info.param.options.search_scale ? "Search" : "") +
             (info.param.options.rms_scale ? "Rms" : "");
    });

TEST(NmseTest, SearchingAScaleIsNeverWorse) {
  for (const auto& in : {codec_test::Gaussian(kElements), codec_test::Laplace(kElements)}) {
    EXPECT_LT(Nmse({.kind = CodecKind::kInt4, .search_scale = true}, in),
              0.97 * Nmse({.kind = CodecKind::kInt4}, in));
  }
}

}  // namespace
}  // namespace longhaul
