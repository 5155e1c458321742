#include "tests/conformance/codec_suite.h"

namespace longhaul::codec_test {
namespace {

TEST_P(CodecSuite, PayloadSizeIsTheFormula) {
  EXPECT_EQ(codec_->PayloadBytes(0), 0);
  for (int64_t n : Sizes(kSizes)) {
    const int64_t expected = GetParam().payload_bytes(n);
    EXPECT_EQ(codec_->PayloadBytes(n), expected) << n;
    EXPECT_EQ(codec_->FragmentBytes(3 * kTileElements + n),
              3 * codec_->PayloadBytes(kTileElements) + expected);
    // The result must not depend on how the blocks are cut.
    const int64_t cut = n / 2 / kBlockElements * kBlockElements;
    EXPECT_LE(codec_->PayloadBytes(cut) + codec_->PayloadBytes(n - cut),
              codec_->FragmentBytesMax(n));
  }
  const Codec::Planes planes = codec_->planes();
  EXPECT_EQ(codec_->PayloadBytes(planes.blocks_per_group * kBlockElements),
            planes.code_bytes_per_group + planes.scale_bytes_per_group);
}

TEST_P(CodecSuite, EncodedSegmentsAreValidAndDecodeFinite) {
  for (int64_t n : Sizes(kSizes)) {
    for (const auto& [name, in] : Inputs(n)) {
      SCOPED_TRACE(testing::Message() << n << " " << name);
      const Coded coded = Encode(*codec_, in);
      EXPECT_TRUE(codec_->Validate(View(coded, n)).ok());
      const std::vector<float> out = Decode(coded, n);
      const float bound = codec_->MagnitudeBound(View(coded, n));
      for (float x : out) {
        ASSERT_TRUE(std::isfinite(x));
        ASSERT_LE(std::abs(x), bound);
      }
      if (codec_->exact()) {
        EXPECT_TRUE(SameBits(in, out));
      }
    }
  }
}

TEST_P(CodecSuite, EnergiesAreThoseOfTheMeasuredBlocks) {
  for (int64_t n : Sizes(kSizes)) {
    for (const auto& [name, in] : Inputs(n)) {
      SCOPED_TRACE(testing::Message() << n << " " << name);
      const Coded coded = Encode(*codec_, in);
      const std::vector<float> out = Decode(coded, n);
      double error = 0, signal = 0;
      int64_t measured = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (!kernels::IsMeasured(i / kBlockElements)) continue;
        const double lost = static_cast<double>(in[i]) - out[i];
        error += lost * lost;
        signal += static_cast<double>(in[i]) * in[i];
        ++measured;
      }
      error *= static_cast<double>(n) / measured;
      signal *= static_cast<double>(n) / measured;
      EXPECT_NEAR(coded.result.signal_energy, signal, 1e-5 * signal);
      EXPECT_NEAR(coded.result.error_energy, error, 1e-5 * error);
    }
  }
}

TEST_P(CodecSuite, ScalarAndSimdGiveTheSameBits) {
  CodecOptions options = GetParam().options;
  // The same two are compared for the other kind of kernels.
  if (options.kernels == KernelKind::kScalar) return;
  options.kernels = KernelKind::kScalar;
  const auto twin = MakeCodec(options).value();
  for (int64_t n : Sizes(kSizes)) {
    for (const auto& [name, in] : Inputs(n)) {
      SCOPED_TRACE(testing::Message() << n << " " << name);
      const Coded a = Encode(*codec_, in), b = Encode(*twin, in);
      EXPECT_EQ(a.payload, b.payload);
      EXPECT_EQ(a.result.base_exponent, b.result.base_exponent);
      EXPECT_EQ(a.result.error_energy, b.result.error_energy);
      EXPECT_EQ(a.result.signal_energy, b.result.signal_energy);
      std::vector<float> acc_a = Gaussian(n, 3e-3f, 7), acc_b = acc_a;
      ASSERT_TRUE(codec_->DecodeAccumulate(View(a, n), 0.3f, absl::MakeSpan(acc_a)).ok());
      ASSERT_TRUE(twin->DecodeAccumulate(View(a, n), 0.3f, absl::MakeSpan(acc_b)).ok());
      EXPECT_TRUE(SameBits(acc_a, acc_b));
    }
  }
}

TEST_P(CodecSuite, AccumulateIsOneMultiplicationAndOneAddition) {
  for (int64_t n : Sizes(kSizes)) {
    const Coded coded = Encode(*codec_, Gaussian(n));
    const std::vector<float> decoded = Decode(coded, n);
    std::vector<float> acc = Gaussian(n, 1, 9), expected = acc;
    const float weight = 0.7f;
    for (int64_t i = 0; i < n; ++i) {
      // Volatile, so that the product is rounded separately.
      const volatile float product = weight * decoded[i];
      expected[i] = expected[i] + product;
    }
    ASSERT_TRUE(codec_->DecodeAccumulate(View(coded, n), weight, absl::MakeSpan(acc)).ok());
    EXPECT_TRUE(SameBits(acc, expected)) << n;
  }
}

TEST_P(CodecSuite, DecodesAnyRunOfBlocks) {
  for (int64_t n : Sizes(kSizes)) {
    const Coded coded = Encode(*codec_, Gaussian(n, 1e-2f, 3));
    const std::vector<float> decoded = Decode(coded, n);
    for (const BlockRange& range : Ranges(n, 1)) {
      SCOPED_TRACE(testing::Message() << n << " blocks " << range.first << "+" << range.count);
      const int64_t elements = ElementsOf(range, n);
      const auto expected =
          absl::MakeConstSpan(decoded).subspan(range.first * kBlockElements, elements);
      std::vector<float> out(elements, 42.0f), acc(elements, 0.0f);
      ASSERT_TRUE(codec_->Decode(View(coded, n), absl::MakeSpan(out), range.first).ok());
      EXPECT_TRUE(SameBits(out, expected));
      ASSERT_TRUE(
          codec_->DecodeAccumulate(View(coded, n), 1, absl::MakeSpan(acc), range.first).ok());
      for (int64_t i = 0; i < elements; ++i) ASSERT_EQ(acc[i], expected[i]);
    }
  }
}

TEST_P(CodecSuite, SliceDecodesToTheSliceOfTheDecode) {
  for (int64_t n : Sizes(kSizes)) {
    const Coded whole = Encode(*codec_, Gaussian(n, 1e-2f, 3));
    const std::vector<float> decoded = Decode(whole, n);
    for (const BlockRange& range : Ranges(n, codec_->planes().blocks_per_group)) {
      SCOPED_TRACE(testing::Message() << n << " blocks " << range.first << "+" << range.count);
      const int64_t elements = ElementsOf(range, n);
      Coded part{.result = whole.result,
                 .payload = std::vector<uint8_t>(codec_->PayloadBytes(elements))};
      ASSERT_TRUE(SliceSegment(*codec_, View(whole, n), range, absl::MakeSpan(part.payload)).ok());
      EXPECT_TRUE(codec_->Validate(View(part, elements)).ok());
      const auto expected =
          absl::MakeConstSpan(decoded).subspan(range.first * kBlockElements, elements);
      EXPECT_TRUE(SameBits(Decode(part, elements), expected));
    }
  }
}

// Whether the difference u - decoded is always a float.
inline bool LosesExactly(const Codec& codec) {
  return !codec.options().stochastic && codec.kind() != CodecKind::kSign1 &&
         codec.kind() != CodecKind::kTopk2;
}

TEST_P(CodecSuite, FeedbackKeepsWhatIsLost) {
  for (int64_t n : Sizes(kSizes)) {
    for (const auto& [name, in] : Inputs(n)) {
      SCOPED_TRACE(testing::Message() << n << " " << name);
      const std::vector<float> minus = Gaussian(n, 1e-4f, 6), error = Gaussian(n, 1e-4f, 5);
      std::vector<float> u(n), lost(n);
      for (int64_t i = 0; i < n; ++i) {
        const volatile float difference = in[i] - minus[i];
        const volatile float again = codec_->options().feedback_decay * error[i];
        u[i] = difference + again;
      }
      Coded coded{.payload = std::vector<uint8_t>(codec_->PayloadBytes(n))};
      auto result = codec_->Encode({in, minus, error}, absl::MakeSpan(lost),
                                   absl::MakeSpan(coded.payload), kNoise);
      ASSERT_TRUE(result.ok()) << result.status();
      coded.result = *result;
      const Coded plain = Encode(*codec_, u);
      EXPECT_EQ(coded.payload, plain.payload);
      EXPECT_EQ(coded.result.error_energy, plain.result.error_energy);
      const std::vector<float> decoded = Decode(coded, n);
      float largest = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (LosesExactly(*codec_)) {
          ASSERT_EQ(lost[i], u[i] - decoded[i]) << i;
          ASSERT_EQ(decoded[i] + lost[i], u[i]) << i;
        } else {
          // The difference is rounded; twice if a block became zeros afterwards.
          if (i % kBlockElements == 0) {
            largest = 0;
            for (int64_t k = i; k < std::min(i + kBlockElements, n); ++k)
              largest = std::max(largest, std::abs(u[k]));
          }
          const double ulp = std::ldexp(largest, -22);
          ASSERT_NEAR(static_cast<double>(decoded[i]) + lost[i], u[i], ulp) << i;
        }
      }
    }
  }
}

TEST_P(CodecSuite, LostMayOverwriteAnInput) {
  const int64_t n = 5000;
  const std::vector<float> values = Gaussian(n), minus = Gaussian(n, 0.5f, 2),
                           error = Gaussian(n, 0.1f, 3);
  std::vector<float> lost(n);
  std::vector<uint8_t> payload(codec_->PayloadBytes(n)), again = payload;
  ASSERT_TRUE(
      codec_->Encode({values, minus, error}, absl::MakeSpan(lost), absl::MakeSpan(payload)).ok());
  for (int which = 0; which < 3; ++which) {
    std::vector<float> spans[3] = {values, minus, error};
    const auto target = absl::MakeSpan(spans[which]);
    ASSERT_TRUE(codec_->Encode({spans[0], spans[1], spans[2]}, target, absl::MakeSpan(again)).ok());
    EXPECT_EQ(again, payload);
    EXPECT_TRUE(SameBits(spans[which], lost));
  }
}

TEST_P(CodecSuite, RunsGiveTheBytesOfTheWhole) {
  for (int64_t n : Sizes({{1, 129, 2 * kRunElements, 3 * kRunElements + 77, kTileElements}})) {
    for (const auto& [name, in] : Inputs(n)) {
      SCOPED_TRACE(testing::Message() << n << " " << name);
      std::vector<float> lost(n), lost_by_runs(n);
      Coded coded{.payload = std::vector<uint8_t>(codec_->PayloadBytes(n))};
      std::vector<uint8_t> payload = coded.payload;
      coded.result =
          codec_->Encode({in}, absl::MakeSpan(lost), absl::MakeSpan(coded.payload), kNoise).value();
      SegmentEncoder encoder(*codec_, n, absl::MakeSpan(lost_by_runs), absl::MakeSpan(payload),
                             kNoise);
      for (int64_t at = 0, run = kRunElements; at < n; at += run, run = 2 * kRunElements)
        encoder.Add({absl::MakeConstSpan(in).subspan(at, run)});
      const auto result = encoder.Finish();
      ASSERT_TRUE(result.ok());
      EXPECT_EQ(payload, coded.payload);
      EXPECT_TRUE(SameBits(lost, lost_by_runs));
      EXPECT_EQ(result->base_exponent, coded.result.base_exponent);
      EXPECT_EQ(result->error_energy, coded.result.error_energy);
    }
  }
}

TEST_P(CodecSuite, FeedbackOfManyRoundsSendsTheSum) {
  const int64_t n = 1000;
  const int rounds = 64;
  const std::vector<float> in = Gaussian(n, 1e-3f);
  // `forgotten`: on purpose, with a decay.
  std::vector<float> error(n, 0.0f), sent(n, 0.0f), forgotten(n, 0.0f);
  const float decay = codec_->options().feedback_decay;
  Coded coded{.payload = std::vector<uint8_t>(codec_->PayloadBytes(n))};
  for (int round = 0; round < rounds; ++round) {
    for (int64_t i = 0; i < n; ++i) forgotten[i] += (1 - decay) * error[i];
    auto result =
        codec_->Encode({in, {}, error}, absl::MakeSpan(error), absl::MakeSpan(coded.payload),
                       {.key = 1, .first_block = round * 8});
    ASSERT_TRUE(result.ok());
    coded.result = *result;
    ASSERT_TRUE(codec_->DecodeAccumulate(View(coded, n), 1.0f, absl::MakeSpan(sent)).ok());
  }
  for (int64_t i = 0; i < n; ++i)
    EXPECT_NEAR(sent[i] + error[i] + forgotten[i], rounds * in[i], 1e-5);
}

TEST_P(CodecSuite, RefusesNanAndInfWithTheirIndex) {
  for (int64_t n : Sizes(kSizes)) {
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      for (int64_t at : {int64_t{0}, n / 2, n - 1}) {
        std::vector<float> in = Gaussian(n);
        in[at] = bad;
        std::vector<uint8_t> payload(codec_->PayloadBytes(n));
        const std::string where = "element " + std::to_string(at) + " ";
        const auto result = codec_->Encode({in}, {}, absl::MakeSpan(payload), kNoise);
        ASSERT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_NE(std::string(result.status().message()).find(where), std::string::npos)
            << result.status();

        const std::vector<float> error = Gaussian(n, 1, 2);
        const auto fed =
            codec_->Encode({error, {}, in}, absl::MakeSpan(in), absl::MakeSpan(payload), kNoise);
        ASSERT_EQ(fed.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_NE(std::string(fed.status().message()).find(where), std::string::npos)
            << fed.status();
      }
    }
  }
}

TEST_P(CodecSuite, RefusesFeedbackThatOverflows) {
  const std::vector<float> in(300, std::numeric_limits<float>::max());
  std::vector<float> lost(300);
  std::vector<uint8_t> payload(codec_->PayloadBytes(in.size()));
  EXPECT_EQ(codec_->Encode({in, {}, in}, absl::MakeSpan(lost), absl::MakeSpan(payload), kNoise)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(CodecSuite, RefusesWrongFrames) {
  const int64_t n = 300;
  const Coded coded = Encode(*codec_, Gaussian(n));
  const auto code = [&](int32_t base_exponent, absl::Span<const uint8_t> payload,
                        int64_t elements) {
    return codec_->Validate({elements, base_exponent, payload}).code();
  };
  const int32_t base = coded.result.base_exponent;
  EXPECT_EQ(code(base, coded.payload, n), absl::StatusCode::kOk);
  for (int64_t elements :
       {int64_t{0}, int64_t{-1}, n - 200, n + 200, kTileElements + 1,
        std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    EXPECT_EQ(code(base, coded.payload, elements), absl::StatusCode::kInvalidArgument) << elements;
  }
  const absl::Span<const uint8_t> payload = coded.payload;
  EXPECT_EQ(code(base, payload.first(payload.size() - 1), n), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(base, {}, n), absl::StatusCode::kInvalidArgument);
  std::vector<float> out(n);
  for (int32_t exponent :
       {128, -120, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    EXPECT_EQ(code(exponent, payload, n), absl::StatusCode::kInvalidArgument) << exponent;
    const SegmentView bad = {n, exponent, payload};
    EXPECT_FALSE(codec_->Decode(bad, absl::MakeSpan(out)).ok());
    EXPECT_FALSE(codec_->DecodeAccumulate(bad, 1, absl::MakeSpan(out)).ok());
  }
  const SegmentView truncated = {n, base, payload.first(payload.size() - 1)};
  EXPECT_FALSE(codec_->Decode(truncated, absl::MakeSpan(out)).ok());
}

TEST_P(CodecSuite, RandomBytesNeverCrashAndValidOnesDecodeFinite) {
  Random random(11);
  int valid = 0;
  for (int trial = 0; trial < 4000 / GetParam().trials_divisor; ++trial) {
    const int64_t n = 1 + random.Below(trial % 4 == 0 ? 700 : 5);
    std::vector<uint8_t> payload(codec_->PayloadBytes(n));
    for (uint8_t& byte : payload) byte = random.Next();
    const int32_t base =
        codec_->kind() == CodecKind::kE3m0 ? static_cast<int32_t>(random.Below(247)) - 119 : 0;
    std::vector<float> out(n);
    const SegmentView segment = {n, base, payload};
    ASSERT_TRUE(codec_->Decode(segment, absl::MakeSpan(out)).ok());
    std::vector<float> acc(n, 1.0f);
    ASSERT_TRUE(codec_->DecodeAccumulate(segment, 1.0f, absl::MakeSpan(acc)).ok());
    if (!codec_->Validate(segment).ok()) continue;
    ++valid;
    const float bound = codec_->MagnitudeBound(segment);
    for (float x : out) {
      ASSERT_TRUE(std::isfinite(x));
      ASSERT_LE(std::abs(x), bound);
    }
  }
  // Random positions are rarely ascending and few, so hardly any bytes are valid for topk2.
  EXPECT_GT(valid, codec_->kind() == CodecKind::kTopk2 ? -1 : 100 / GetParam().trials_divisor);
}

TEST_P(CodecSuite, DamagedSegmentsAreRefusedOrDecodeFinite) {
  Random random(12);
  for (int trial = 0; trial < 2000 / GetParam().trials_divisor; ++trial) {
    const int64_t n = 1 + random.Below(2000);
    Coded coded = Encode(*codec_, Gaussian(n, 1e-2f, trial + 1));
    const int64_t flips = 1 + random.Below(3);
    for (int64_t i = 0; i < flips; ++i)
      coded.payload[random.Below(coded.payload.size())] ^= 1 << random.Below(8);
    const std::vector<float> out = Decode(coded, n);
    if (!codec_->Validate(View(coded, n)).ok()) continue;
    for (float x : out) ASSERT_TRUE(std::isfinite(x));
  }
}

TEST_P(CodecSuite, WorksOnUnalignedBytes) {
  const int64_t n = 1000;
  const std::vector<float> in = Gaussian(n);
  const Coded aligned = Encode(*codec_, in);
  std::vector<uint8_t> buffer(aligned.payload.size() + 1);
  const auto bytes = absl::MakeSpan(buffer).subspan(1);
  ASSERT_TRUE(codec_->Encode({in}, {}, bytes, kNoise).ok());
  EXPECT_EQ(absl::MakeConstSpan(bytes), absl::MakeConstSpan(aligned.payload));
  std::vector<float> out(n);
  const SegmentView segment = {n, aligned.result.base_exponent, bytes};
  ASSERT_TRUE(codec_->Validate(segment).ok());
  ASSERT_TRUE(codec_->Decode(segment, absl::MakeSpan(out)).ok());
  EXPECT_TRUE(SameBits(out, Decode(aligned, n)));
}

}  // namespace
}  // namespace longhaul::codec_test
