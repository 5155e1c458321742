// The formulas agree with the codecs where both apply, and with published figures for other blocks.
#include "tests/benchmark/distortion/formulas.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "common/layout/fragment_layout.h"
#include "tests/conformance/codec_inputs.h"

namespace longhaul::distortion {
namespace {

constexpr int64_t kElements = 4 * kTileElements;

double CodecNmse(CodecKind kind, const std::vector<float>& in) {
  const auto codec = MakeCodec({.kind = kind}).value();
  std::vector<uint8_t> coded(codec->PayloadBytes(kTileElements));
  std::vector<float> lost(kTileElements);
  double error = 0, signal = 0;
  for (int64_t first = 0; first < kElements; first += kTileElements) {
    const auto segment = absl::MakeConstSpan(in).subspan(first, kTileElements);
    EXPECT_TRUE(codec->Encode({segment}, absl::MakeSpan(lost), absl::MakeSpan(coded)).ok());
    for (int64_t i = 0; i < kTileElements; ++i) {
      error += static_cast<double>(lost[i]) * lost[i];
      signal += static_cast<double>(segment[i]) * segment[i];
    }
  }
  return error / signal;
}

TEST(FormulasTest, AgreeWithTheCodecs) {
  for (const auto& in : {codec_test::Gaussian(kElements), codec_test::Laplace(kElements)}) {
    for (const CodecKind kind :
         {CodecKind::kE3m0, CodecKind::kInt8, CodecKind::kInt4, CodecKind::kSign1}) {
      const Scale sent = kind == CodecKind::kE3m0 ? Scale::kByte : Scale::kWord;
      const double formula = Nmse(kind, sent, kBlockElements, in).value();
      EXPECT_NEAR(formula, CodecNmse(kind, in), 1e-3 * formula) << CodecName(kind);
    }
  }
}

// For large blocks the mean magnitude of a Gaussian is sqrt(2 / pi): NMSE 1 - 2 / pi.
TEST(FormulasTest, SignOfLargeBlocksIsTheAnalyticValue) {
  const double nmse =
      Nmse(CodecKind::kSign1, Scale::kFp32, kElements, codec_test::Gaussian(kElements)).value();
  EXPECT_NEAR(nmse, 1 - 2 / std::numbers::pi, 0.002);
}

TEST(FormulasTest, RefusesWhatHasNoScale) {
  const std::vector<float> one(1, 1.0f);
  EXPECT_FALSE(Nmse(CodecKind::kBf16, Scale::kFp32, 128, one).ok());
  EXPECT_FALSE(Nmse(CodecKind::kTopk2, Scale::kWord, 128, one).ok());
  EXPECT_FALSE(Nmse(CodecKind::kSign1, Scale::kSearch, 128, one).ok());
}

}  // namespace
}  // namespace longhaul::distortion
