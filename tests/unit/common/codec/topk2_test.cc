// The bytes of topk2, and which elements of a chunk it keeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/codec/codec.h"
#include "common/codec/topk2_format.h"
#include "tests/conformance/codec_inputs.h"

namespace longhaul {
namespace {

class Topk2Test : public testing::Test {
 protected:
  std::vector<uint8_t> Encode(const std::vector<float>& in) {
    std::vector<uint8_t> payload(codec_->PayloadBytes(in.size()));
    EXPECT_TRUE(codec_->Encode({in}, {}, absl::MakeSpan(payload)).ok());
    return payload;
  }
  std::vector<float> Decode(const std::vector<uint8_t>& payload, int64_t n) {
    std::vector<float> out(n);
    EXPECT_TRUE(codec_->Decode({n, 0, payload}, absl::MakeSpan(out)).ok());
    return out;
  }
  absl::Status Validate(const std::vector<uint8_t>& payload, int64_t n) {
    return codec_->Validate({n, 0, payload});
  }

  const std::unique_ptr<Codec> codec_ = MakeCodec({.kind = CodecKind::kTopk2}).value();
};

TEST_F(Topk2Test, KeepsTheLargestOfEachChunk) {
  const int64_t n = 2 * topk2::kChunkElements;
  const std::vector<float> in = codec_test::Gaussian(n), out = Decode(Encode(in), n);
  for (int64_t chunk = 0; chunk < 2; ++chunk) {
    const auto begin = in.begin() + chunk * topk2::kChunkElements;
    std::vector<float> sorted(begin, begin + topk2::kChunkElements);
    std::sort(sorted.begin(), sorted.end(),
              [](float a, float b) { return std::abs(a) > std::abs(b); });
    for (int64_t i = 0; i < topk2::kChunkElements; ++i) {
      const int64_t at = chunk * topk2::kChunkElements + i;
      const bool kept = std::abs(in[at]) >= std::abs(sorted[63]);
      ASSERT_EQ(out[at] != 0, kept) << at;
      if (kept) {
        EXPECT_EQ(std::signbit(out[at]), std::signbit(in[at]));
      }
    }
  }
}

TEST_F(Topk2Test, KeepsTheFirstOfEqualMagnitudes) {
  const int64_t n = topk2::kChunkElements;
  const std::vector<float> out = Decode(Encode(std::vector<float>(n, -2.0f)), n);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out[i], i < 64 ? -2.0f : 0.0f) << i;
}

TEST_F(Topk2Test, BytesOfAShortChunk) {
  std::vector<float> in(3, 0.0f);  // 2 kept, 2 groups.
  in[0] = 1.0f;
  in[2] = -0.25f;
  // Levels .25 and 1 (upper bits(s) >> 15), both in group 0; entries by position.
  EXPECT_EQ(Encode(in),
            (std::vector<uint8_t>{0x00, 0x7d, 0x00, 0x7f, 0b0011, 0 | 1 << 6, 2 | 1 << 7}));
}

TEST_F(Topk2Test, RefusesMalformedChunks) {
  const std::vector<float> in = {1.0f, 0.5f, -0.25f};
  const std::vector<uint8_t> good = Encode(in);
  ASSERT_TRUE(Validate(good, 3).ok());
  const auto refused = [&](size_t byte, uint8_t value) {
    std::vector<uint8_t> bad = good;
    bad[byte] = value;
    return Validate(bad, 3).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(1, 0xff));     // A level that is not finite.
  EXPECT_TRUE(refused(4, 0b0001));   // One position only.
  EXPECT_TRUE(refused(4, 0b0111));   // Three.
  EXPECT_TRUE(refused(4, 0b10010));  // Beyond the groups.
  EXPECT_TRUE(refused(6, good[5]));  // The same position twice.
  EXPECT_TRUE(refused(6, 3));        // Beyond the segment.
}

TEST_F(Topk2Test, TwoLevelsFitTheTailOfAGaussian) {
  const int64_t n = 16 * topk2::kChunkElements;
  const std::vector<float> in = codec_test::Gaussian(n), out = Decode(Encode(in), n);
  double lost = 0, kept = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (out[i] == 0) continue;
    lost += (in[i] - out[i]) * (in[i] - out[i]);
    kept += in[i] * in[i];
  }
  EXPECT_LT(lost / kept, 0.01);
}

}  // namespace
}  // namespace longhaul
