// Every instruction set of this machine gives the bits of the scalar kernels. The conformance suite
// tests only the one that is chosen at run time.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "common/codec/codec.h"
#include "common/layout/fragment_layout.h"
#include "tests/conformance/codec_inputs.h"
#include "tests/testing/each_target.h"

namespace longhaul {
namespace {

// Everything that a codec computes from one input, for comparison.
struct Trace {
  std::vector<uint8_t> payload, fed_payload;
  std::vector<float> decoded, accumulated, error;
  EncodeResult result;

  Trace(const CodecOptions& options, const std::vector<float>& in) {
    const auto codec = MakeCodec(options).value();
    const int64_t n = in.size();
    payload.resize(codec->PayloadBytes(n));
    fed_payload.resize(codec->PayloadBytes(n));
    decoded.resize(n);
    accumulated = codec_test::Gaussian(n, 1e-2f, 3);
    error = codec_test::Gaussian(n, 1e-5f, 4);
    const std::vector<float> minus = codec_test::Gaussian(n, 1e-4f, 5);
    const NoiseKey noise = {.key = 0x123456789abcdef, .first_block = (int64_t{1} << 28) - 1};
    result = codec->Encode({in}, {}, absl::MakeSpan(payload), noise).value();
    EXPECT_TRUE(
        codec->Encode({in, minus, error}, absl::MakeSpan(error), absl::MakeSpan(fed_payload), noise)
            .ok());
    const SegmentView segment = {n, result.base_exponent, payload};
    EXPECT_TRUE(codec->Validate(segment).ok());
    EXPECT_TRUE(codec->Decode(segment, absl::MakeSpan(decoded)).ok());
    EXPECT_TRUE(codec->DecodeAccumulate(segment, 0.3f, absl::MakeSpan(accumulated)).ok());
  }
};

void ExpectSame(const Trace& a, const Trace& b) {
  const auto same = [](const auto& x, const auto& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(x[0])) == 0;
  };
  EXPECT_TRUE(same(a.payload, b.payload));
  EXPECT_TRUE(same(a.fed_payload, b.fed_payload));
  EXPECT_TRUE(same(a.decoded, b.decoded));
  EXPECT_TRUE(same(a.accumulated, b.accumulated));
  EXPECT_TRUE(same(a.error, b.error));
  EXPECT_EQ(a.result.base_exponent, b.result.base_exponent);
  EXPECT_EQ(a.result.error_energy, b.result.error_energy);
  EXPECT_EQ(a.result.signal_energy, b.result.signal_energy);
}

TEST(SimdTargetsTest, EachEqualsTheScalarKernels) {
  OnEachTarget([] {
    for (const CodecOptions& options :
         {CodecOptions{.kind = CodecKind::kFp32}, CodecOptions{.kind = CodecKind::kBf16},
          CodecOptions{.kind = CodecKind::kE3m0},
          CodecOptions{.kind = CodecKind::kE3m0, .search_scale = true},
          CodecOptions{.kind = CodecKind::kE3m0, .stochastic = true},
          CodecOptions{.kind = CodecKind::kInt8},
          CodecOptions{.kind = CodecKind::kInt8, .stochastic = true},
          CodecOptions{.kind = CodecKind::kInt6}, CodecOptions{.kind = CodecKind::kInt4},
          CodecOptions{.kind = CodecKind::kInt4, .search_scale = true},
          CodecOptions{.kind = CodecKind::kInt4, .stochastic = true},
          CodecOptions{.kind = CodecKind::kSign1},
          CodecOptions{.kind = CodecKind::kSign1, .rms_scale = true},
          CodecOptions{.kind = CodecKind::kTopk2, .feedback_decay = 0.95f}}) {
      CodecOptions scalar = options;
      scalar.kernels = KernelKind::kScalar;
      for (int64_t n : {1, 15, 16, 17, 127, 128, 129, 1000, 4200}) {
        for (const auto& [name, in] : codec_test::Inputs(n)) {
          SCOPED_TRACE(testing::Message() << CodecName(options.kind) << " " << n << " " << name);
          ExpectSame(Trace(options, in), Trace(scalar, in));
        }
      }
    }
  });
}

}  // namespace
}  // namespace longhaul
