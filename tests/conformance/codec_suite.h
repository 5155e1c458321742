// What every Codec must do, with every kind and every kernels. A backend is tested by one
// INSTANTIATE_TEST_SUITE_P of CodecSuite over CodecCases.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/base/checked_math.h"
#include "common/codec/codec.h"
#include "common/codec/segment_encoder.h"
#include "common/codec/segment_slice.h"
#include "tests/conformance/codec_inputs.h"

namespace longhaul::codec_test {

struct CodecCase {
  std::string name;
  CodecOptions options;
  // The payload formula, written independently of the codec.
  std::function<int64_t(int64_t)> payload_bytes;
  std::function<std::unique_ptr<Codec>(const CodecOptions&)> make =
      [](const CodecOptions& options) { return MakeCodec(options).value(); };
  // A slow backend leaves out larger segments, and tries only this share of the random bytes.
  int64_t elements_max = kTileElements;
  int trials_divisor = 1;
};

inline constexpr NoiseKey kNoise = {.key = 0x9e3779b97f4a7c15, .first_block = 7};

struct Coded {
  EncodeResult result;
  std::vector<uint8_t> payload;
};

inline bool SameBits(absl::Span<const float> a, absl::Span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class CodecSuite : public testing::TestWithParam<CodecCase> {
 protected:
  CodecSuite() : codec_(GetParam().make(GetParam().options)) {}

  static std::vector<int64_t> Sizes(absl::Span<const int64_t> sizes) {
    std::vector<int64_t> result;
    for (int64_t n : sizes) {
      if (n <= GetParam().elements_max) result.push_back(n);
    }
    return result;
  }

  Coded Encode(const Codec& codec, absl::Span<const float> in) {
    Coded coded{.payload = std::vector<uint8_t>(codec.PayloadBytes(in.size()), 0xa5)};
    auto result = codec.Encode({in}, {}, absl::MakeSpan(coded.payload), kNoise);
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) coded.result = *result;
    return coded;
  }

  static SegmentView View(const Coded& coded, int64_t elements) {
    return {elements, coded.result.base_exponent, coded.payload};
  }

  std::vector<float> Decode(const Coded& coded, int64_t elements) {
    std::vector<float> out(elements, 42.0f);
    EXPECT_TRUE(codec_->Decode(View(coded, elements), absl::MakeSpan(out)).ok());
    return out;
  }

  // Block ranges whose ends are multiples of `group`, or the segment's ends.
  static std::vector<BlockRange> Ranges(int64_t elements, int64_t group) {
    const int64_t blocks = CeilDiv(elements, kBlockElements), groups = CeilDiv(blocks, group);
    std::vector<BlockRange> ranges;
    for (const auto& [first, last] : {std::pair{int64_t{0}, groups},
                                      {int64_t{0}, int64_t{1}},
                                      {groups - 1, groups},
                                      {groups / 3, groups},
                                      {groups / 2, groups / 2 + 1}}) {
      ranges.push_back({first * group, std::min(last * group, blocks) - first * group});
    }
    return ranges;
  }

  const std::unique_ptr<Codec> codec_;
};

}  // namespace longhaul::codec_test
