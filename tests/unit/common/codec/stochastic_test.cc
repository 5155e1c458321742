// Stochastic rounding keeps the mean, and its noise depends only on key and block.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/codec/codec.h"
#include "common/codec/rounding_noise.h"
#include "common/layout/fragment_layout.h"
#include "tests/conformance/codec_inputs.h"

namespace longhaul {
namespace {

class StochasticTest : public testing::TestWithParam<CodecKind> {
 protected:
  std::vector<float> Decoded(const std::vector<float>& in, const NoiseKey& noise) {
    const int64_t n = in.size();
    std::vector<uint8_t> payload(codec_->PayloadBytes(n));
    const auto result = codec_->Encode({in}, {}, absl::MakeSpan(payload), noise).value();
    std::vector<float> out(n);
    EXPECT_TRUE(codec_->Decode({n, result.base_exponent, payload}, absl::MakeSpan(out)).ok());
    return out;
  }

  const std::unique_ptr<Codec> codec_ = MakeCodec({.kind = GetParam(), .stochastic = true}).value();
};

TEST_P(StochasticTest, TheMeanOfManyDrawsIsTheInput) {
  const std::vector<float> in = codec_test::Gaussian(kBlockElements);
  constexpr int kDraws = 4000;
  std::vector<double> sum(in.size()), square(in.size());
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::vector<float> out = Decoded(in, {.key = 5, .first_block = draw});
    for (size_t i = 0; i < in.size(); ++i) {
      sum[i] += out[i];
      square[i] += static_cast<double>(out[i]) * out[i];
    }
  }
  for (size_t i = 0; i < in.size(); ++i) {
    const double mean = sum[i] / kDraws;
    // One more draw is added at the largest distance, for a level that is drawn too rarely to be
    // seen.
    const double variance = square[i] / kDraws - mean * mean + in[i] * in[i] / kDraws;
    const double deviation = std::sqrt(std::max(0.0, variance) / kDraws);
    EXPECT_NEAR(mean, in[i], 5 * deviation + 1e-4) << i;
  }
}

TEST_P(StochasticTest, NoiseIsAFunctionOfKeyAndBlock) {
  const int64_t n = 3 * kBlockElements;
  const std::vector<float> in = codec_test::Gaussian(n);
  const auto whole = Decoded(in, {.key = 9, .first_block = 40});
  EXPECT_EQ(whole, Decoded(in, {.key = 9, .first_block = 40}));
  EXPECT_NE(whole, Decoded(in, {.key = 10, .first_block = 40}));
  EXPECT_NE(whole, Decoded(in, {.key = 9, .first_block = 41}));
  // The last block as a separate segment.
  const std::vector<float> last(in.begin() + 2 * kBlockElements, in.end());
  const std::vector<float> part(whole.begin() + 2 * kBlockElements, whole.end());
  EXPECT_EQ(Decoded(last, {.key = 9, .first_block = 42}), part);
}

TEST_P(StochasticTest, ZeroStaysZero) {
  std::vector<float> in(kBlockElements, 0.0f);
  in[3] = 1;
  for (int draw = 0; draw < 100; ++draw) {
    const auto out = Decoded(in, {.key = 1, .first_block = draw});
    for (int64_t i = 0; i < kBlockElements; ++i) {
      if (i != 3) {
        ASSERT_EQ(out[i], 0) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, StochasticTest,
                         testing::Values(CodecKind::kE3m0, CodecKind::kInt8, CodecKind::kInt4),
                         [](const auto& info) { return std::string(CodecName(info.param)); });

TEST(RoundingNoiseTest, IsWithinOneAndTwoAndExact) {
  EXPECT_EQ(NoisePlusOne(0), 1 + 0x1p-17f);
  EXPECT_EQ(NoisePlusOne(0xffff), 2 - 0x1p-17f);
  EXPECT_EQ(NoisePlusOne(0x8000), 1.5f + 0x1p-17f);
}

}  // namespace
}  // namespace longhaul
