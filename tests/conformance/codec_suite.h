// What every Codec must do, whatever its kind and kernels. A backend is tested by one
// INSTANTIATE_TEST_SUITE_P of CodecSuite over CodecCases.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/base/checked_math.h"
#include "common/codec/codec.h"
#include "common/codec/segment_slice.h"
#include "tests/conformance/codec_inputs.h"

namespace longhaul::codec_test {

struct CodecCase {
  std::string name;
  CodecOptions options;
  // The payload formula, written independently: bits of a code, bytes of a block's scales.
  int64_t code_bits = 0;
  int64_t scale_bytes = 0;
};

struct Coded {
  EncodeResult result;
  std::vector<uint8_t> payload;
};

inline bool SameBits(absl::Span<const float> a, absl::Span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class CodecSuite : public testing::TestWithParam<CodecCase> {
 protected:
  CodecSuite() : codec_(MakeCodec(GetParam().options).value()) {}

  Coded Encode(const Codec& codec, absl::Span<const float> in) {
    Coded coded{.payload = std::vector<uint8_t>(codec.PayloadBytes(in.size()), 0xa5)};
    auto result = codec.Encode(in, absl::MakeSpan(coded.payload));
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) coded.result = *result;
    return coded;
  }

  std::vector<float> Decode(const Coded& coded, int64_t elements) {
    std::vector<float> out(elements, 42.0f);
    EXPECT_TRUE(
        codec_->Decode(coded.result.base_exponent, coded.payload, absl::MakeSpan(out)).ok());
    return out;
  }

  const std::unique_ptr<Codec> codec_;
};

TEST_P(CodecSuite, PayloadSizeIsTheFormulaAndAdditiveOverBlocks) {
  const CodecCase& param = GetParam();
  EXPECT_EQ(codec_->PayloadBytes(0), 0);
  for (int64_t n : kSizes) {
    const int64_t expected =
        CeilDiv(n * param.code_bits, 8) + CeilDiv(n, kBlockElements) * param.scale_bytes;
    EXPECT_EQ(codec_->PayloadBytes(n), expected) << n;
    const int64_t cut = n / 2 / kBlockElements * kBlockElements;
    EXPECT_EQ(codec_->PayloadBytes(cut) + codec_->PayloadBytes(n - cut), expected) << n;
  }
  EXPECT_EQ(codec_->PayloadBytes(kBlockElements),
            codec_->planes().code_bytes_per_block + codec_->planes().scale_bytes_per_block);
}

TEST_P(CodecSuite, EncodedSegmentsAreValidAndDecodeFinite) {
  for (int64_t n : kSizes) {
    for (const auto& [name, in] : Inputs(n)) {
      SCOPED_TRACE(testing::Message() << n << " " << name);
      const Coded coded = Encode(*codec_, in);
      EXPECT_TRUE(codec_->Validate(coded.result.base_exponent, coded.payload, n).ok());
      const std::vector<float> out = Decode(coded, n);
      for (float x : out) ASSERT_TRUE(std::isfinite(x));
      if (codec_->exact()) {
        EXPECT_TRUE(SameBits(in, out));
      }
    }
  }
}

TEST_P(CodecSuite, EnergiesAreThoseOfTheDecodedSegment) {
  for (int64_t n : kSizes) {
    for (const auto& [name, in] : Inputs(n)) {
      SCOPED_TRACE(testing::Message() << n << " " << name);
      const Coded coded = Encode(*codec_, in);
      const std::vector<float> out = Decode(coded, n);
      double error = 0, signal = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double lost = static_cast<double>(in[i]) - out[i];
        error += lost * lost;
        signal += static_cast<double>(in[i]) * in[i];
      }
      EXPECT_NEAR(coded.result.signal_energy, signal, 1e-5 * signal);
      EXPECT_NEAR(coded.result.error_energy, error, 1e-5 * error);
    }
  }
}

TEST_P(CodecSuite, ScalarAndSimdGiveTheSameBits) {
  CodecOptions options = GetParam().options;
  options.kernels =
      options.kernels == KernelKind::kScalar ? KernelKind::kSimd : KernelKind::kScalar;
  const auto twin = MakeCodec(options).value();
  for (int64_t n : kSizes) {
    for (const auto& [name, in] : Inputs(n)) {
      SCOPED_TRACE(testing::Message() << n << " " << name);
      const Coded a = Encode(*codec_, in), b = Encode(*twin, in);
      EXPECT_EQ(a.payload, b.payload);
      EXPECT_EQ(a.result.base_exponent, b.result.base_exponent);
      EXPECT_EQ(a.result.error_energy, b.result.error_energy);
      EXPECT_EQ(a.result.signal_energy, b.result.signal_energy);
      std::vector<float> acc_a = Gaussian(n, 3e-3f, 7), acc_b = acc_a;
      ASSERT_TRUE(
          codec_->DecodeAccumulate(a.result.base_exponent, a.payload, 0.3f, absl::MakeSpan(acc_a))
              .ok());
      ASSERT_TRUE(
          twin->DecodeAccumulate(a.result.base_exponent, a.payload, 0.3f, absl::MakeSpan(acc_b))
              .ok());
      EXPECT_TRUE(SameBits(acc_a, acc_b));
    }
  }
}

TEST_P(CodecSuite, AccumulateIsOneMultiplicationAndOneAddition) {
  for (int64_t n : kSizes) {
    const Coded coded = Encode(*codec_, Gaussian(n));
    const std::vector<float> decoded = Decode(coded, n);
    std::vector<float> acc = Gaussian(n, 1, 9), expected = acc;
    const float weight = 0.7f;
    for (int64_t i = 0; i < n; ++i) {
      const volatile float product = weight * decoded[i];  // Rounded on its own.
      expected[i] = expected[i] + product;
    }
    ASSERT_TRUE(codec_
                    ->DecodeAccumulate(coded.result.base_exponent, coded.payload, weight,
                                       absl::MakeSpan(acc))
                    .ok());
    EXPECT_TRUE(SameBits(acc, expected)) << n;
  }
}

TEST_P(CodecSuite, SliceDecodesToTheSliceOfTheDecode) {
  for (int64_t n : kSizes) {
    const Coded whole = Encode(*codec_, Gaussian(n, 1e-2f, 3));
    const std::vector<float> decoded = Decode(whole, n);
    const int64_t blocks = CeilDiv(n, kBlockElements);
    for (const BlockRange& range :
         {BlockRange{0, blocks}, BlockRange{0, 1}, BlockRange{blocks - 1, 1},
          BlockRange{blocks / 3, blocks - blocks / 3}, BlockRange{blocks / 2, 1}}) {
      SCOPED_TRACE(testing::Message() << n << " blocks " << range.first << "+" << range.count);
      const int64_t elements = ElementsOf(range, n);
      Coded part{.result = whole.result,
                 .payload = std::vector<uint8_t>(codec_->PayloadBytes(elements))};
      ASSERT_TRUE(
          SliceSegment(*codec_, {n, whole.payload}, range, absl::MakeSpan(part.payload)).ok());
      EXPECT_TRUE(codec_->Validate(part.result.base_exponent, part.payload, elements).ok());
      const auto expected =
          absl::MakeConstSpan(decoded).subspan(range.first * kBlockElements, elements);
      EXPECT_TRUE(SameBits(Decode(part, elements), expected));
    }
  }
}

TEST_P(CodecSuite, FeedbackKeepsWhatIsLostExactly) {
  for (int64_t n : kSizes) {
    for (const auto& [name, in] : Inputs(n)) {
      SCOPED_TRACE(testing::Message() << n << " " << name);
      std::vector<float> error = Gaussian(n, 1e-4f, 5), u(n);
      for (int64_t i = 0; i < n; ++i) u[i] = in[i] + error[i];
      Coded coded{.payload = std::vector<uint8_t>(codec_->PayloadBytes(n))};
      auto result =
          codec_->EncodeWithFeedback(in, absl::MakeSpan(error), absl::MakeSpan(coded.payload));
      ASSERT_TRUE(result.ok()) << result.status();
      coded.result = *result;
      const Coded plain = Encode(*codec_, u);
      EXPECT_EQ(coded.payload, plain.payload);
      EXPECT_EQ(coded.result.error_energy, plain.result.error_energy);
      const std::vector<float> decoded = Decode(coded, n);
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(decoded[i] + error[i], u[i]) << i;
        ASSERT_EQ(error[i], u[i] - decoded[i]) << i;
      }
    }
  }
}

TEST_P(CodecSuite, FeedbackOfManyRoundsSendsTheSum) {
  const int64_t n = 1000;
  const int rounds = 64;
  const std::vector<float> in = Gaussian(n, 1e-3f);
  std::vector<float> error(n, 0.0f), sent(n, 0.0f);
  Coded coded{.payload = std::vector<uint8_t>(codec_->PayloadBytes(n))};
  for (int round = 0; round < rounds; ++round) {
    auto result =
        codec_->EncodeWithFeedback(in, absl::MakeSpan(error), absl::MakeSpan(coded.payload));
    ASSERT_TRUE(result.ok());
    ASSERT_TRUE(
        codec_->DecodeAccumulate(result->base_exponent, coded.payload, 1.0f, absl::MakeSpan(sent))
            .ok());
  }
  for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(sent[i] + error[i], rounds * in[i], 1e-6);
}

TEST_P(CodecSuite, RefusesNanAndInfWithTheirIndex) {
  for (int64_t n : kSizes) {
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      for (int64_t at : {int64_t{0}, n / 2, n - 1}) {
        std::vector<float> in = Gaussian(n);
        in[at] = bad;
        std::vector<uint8_t> payload(codec_->PayloadBytes(n));
        const std::string where = "element " + std::to_string(at) + " ";
        const auto result = codec_->Encode(in, absl::MakeSpan(payload));
        ASSERT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_NE(std::string(result.status().message()).find(where), std::string::npos)
            << result.status();

        std::vector<float> error = Gaussian(n, 1, 2);
        const std::vector<float> before = error;
        const auto fed =
            codec_->EncodeWithFeedback(in, absl::MakeSpan(error), absl::MakeSpan(payload));
        ASSERT_EQ(fed.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_NE(std::string(fed.status().message()).find(where), std::string::npos)
            << fed.status();
        EXPECT_TRUE(SameBits(error, before));
      }
    }
  }
}

TEST_P(CodecSuite, RefusesFeedbackThatOverflows) {
  const std::vector<float> in(300, std::numeric_limits<float>::max());
  std::vector<float> error = in;
  std::vector<uint8_t> payload(codec_->PayloadBytes(in.size()));
  const auto result =
      codec_->EncodeWithFeedback(in, absl::MakeSpan(error), absl::MakeSpan(payload));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(SameBits(error, in));
}

TEST_P(CodecSuite, RefusesWrongFrames) {
  const int64_t n = 300;
  const Coded coded = Encode(*codec_, Gaussian(n));
  const auto code = [&](int32_t base_exponent, absl::Span<const uint8_t> payload,
                        int64_t elements) {
    return codec_->Validate(base_exponent, payload, elements).code();
  };
  const int32_t base = coded.result.base_exponent;
  EXPECT_EQ(code(base, coded.payload, n), absl::StatusCode::kOk);
  for (int64_t elements :
       {int64_t{0}, int64_t{-1}, n - 2, n + 2, kTileElements + 1,
        std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    EXPECT_EQ(code(base, coded.payload, elements), absl::StatusCode::kInvalidArgument) << elements;
  }
  const absl::Span<const uint8_t> payload = coded.payload;
  EXPECT_EQ(code(base, payload.first(payload.size() - 1), n), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(base, {}, n), absl::StatusCode::kInvalidArgument);
  for (int32_t exponent :
       {128, -120, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    EXPECT_EQ(code(exponent, payload, n), absl::StatusCode::kInvalidArgument) << exponent;
    std::vector<float> out(n);
    EXPECT_FALSE(codec_->Decode(exponent, payload, absl::MakeSpan(out)).ok());
    EXPECT_FALSE(codec_->DecodeAccumulate(exponent, payload, 1, absl::MakeSpan(out)).ok());
  }
  std::vector<float> shorter(n - 2);
  EXPECT_FALSE(codec_->Decode(base, payload, absl::MakeSpan(shorter)).ok());
}

TEST_P(CodecSuite, RandomBytesNeverCrashAndValidOnesDecodeFinite) {
  Random random(11);
  int valid = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const int64_t n = 1 + random.Below(trial % 4 == 0 ? 700 : 5);
    std::vector<uint8_t> payload(codec_->PayloadBytes(n));
    for (uint8_t& byte : payload) byte = random.Next();
    const int32_t base =
        codec_->kind() == CodecKind::kE3m0 ? static_cast<int32_t>(random.Below(247)) - 119 : 0;
    std::vector<float> out(n);
    ASSERT_TRUE(codec_->Decode(base, payload, absl::MakeSpan(out)).ok());
    std::vector<float> acc(n, 1.0f);
    ASSERT_TRUE(codec_->DecodeAccumulate(base, payload, 1.0f, absl::MakeSpan(acc)).ok());
    if (!codec_->Validate(base, payload, n).ok()) continue;
    ++valid;
    for (float x : out) ASSERT_TRUE(std::isfinite(x));
  }
  EXPECT_GT(valid, 100);
}

TEST_P(CodecSuite, WorksOnUnalignedBytes) {
  const int64_t n = 1000;
  const std::vector<float> in = Gaussian(n);
  const Coded aligned = Encode(*codec_, in);
  std::vector<uint8_t> buffer(aligned.payload.size() + 1);
  const auto bytes = absl::MakeSpan(buffer).subspan(1);
  ASSERT_TRUE(codec_->Encode(in, bytes).ok());
  EXPECT_EQ(absl::MakeConstSpan(bytes), absl::MakeConstSpan(aligned.payload));
  std::vector<float> out(n);
  ASSERT_TRUE(codec_->Validate(aligned.result.base_exponent, bytes, n).ok());
  ASSERT_TRUE(codec_->Decode(aligned.result.base_exponent, bytes, absl::MakeSpan(out)).ok());
  EXPECT_TRUE(SameBits(out, Decode(aligned, n)));
}

}  // namespace longhaul::codec_test
