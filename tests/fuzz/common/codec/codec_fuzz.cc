// Every codec on coded bytes from outside and on values of its own side; scalar against SIMD.
//   input: u8 0 decode, 1 encode | u8 kind | u8 options of the encoder | u16 elements - 1 |
//          i32 base exponent | u8 1: the payload is cut or filled to its size | payload, or values
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include "tests/fuzz/common/codec/codec_adapter.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"

namespace longhaul::fuzz::codec_fuzz {
namespace {

// They are numbered from 1.
constexpr int kKinds = std::size(kCodecs);
constexpr int64_t kElementsMax = 4096 + 300;  // More than the largest group of any codec.
constexpr float kWeight = 0.75f;

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void CheckFinite(const std::vector<float>& values) {
  for (const float value : values) LH_CHECK(std::isfinite(value), "decoded values are finite");
}

// Blocks from one in the middle on: decoded in place, and as a slice.
void CheckParts(const Codec& codec, const CodedSegmentBytes& segment,
                const std::vector<float>& values) {
  const int64_t blocks = (segment.elements + kBlockElements - 1) / kBlockElements;
  const BlockRange half = {blocks / 2, blocks - blocks / 2};
  const std::vector<float> expected(values.begin() + half.first * kBlockElements, values.end());
  std::vector<float> part;
  LH_CHECK(DecodeFrom(codec, segment, half.first, &part).ok() && SameBits(part, expected),
           "a part decodes as in the whole");
  const absl::StatusOr<CodedSegmentBytes> slice = Slice(codec, segment, half);
  if (!slice.ok()) return;  // A codec whose payloads are not cut at every block says so.
  LH_CHECK(Validate(codec, *slice).ok(), "a slice is a segment");
  LH_CHECK(Decode(codec, *slice, &part).ok() && SameBits(part, expected),
           "a slice decodes to its part");
}

// A segment that Validate accepted, and one that was encoded here.
void CheckDecoding(const Codec& codec, const CodedSegmentBytes& segment) {
  std::vector<float> values, acc(segment.elements, 1.0f);
  LH_CHECK(Decode(codec, segment, &values).ok(), "what is valid decodes");
  CheckFinite(values);
  LH_CHECK(DecodeAccumulate(codec, segment, kWeight, &acc).ok(), "what is valid is added");
  for (int64_t i = 0; i < segment.elements; ++i) {
    const float product = kWeight * values[i], sum = 1.0f + product;
    LH_CHECK(acc[i] == sum, "one multiplication and one addition");
  }
  CheckParts(codec, segment, values);
}

void RunDecode(const Codec& scalar, const Codec& simd, const CodedSegmentBytes& segment) {
  const absl::Status valid = Validate(scalar, segment);
  CheckDocumented(valid, {absl::StatusCode::kInvalidArgument});
  LH_CHECK(valid.code() == Validate(simd, segment).code(), "kernels agree on what is valid");
  // Of any bytes whatever, also those that Validate refuses: some values, the same with both.
  std::vector<float> a, b;
  const absl::Status decoded = Decode(scalar, segment, &a);
  LH_CHECK(decoded.code() == Decode(simd, segment, &b).code(), "kernels agree on what decodes");
  LH_CHECK(SameBits(a, b), "scalar and SIMD decode to the same bits");
  std::vector<float> sum_a(segment.elements, 0.5f), sum_b(segment.elements, 0.5f);
  DecodeAccumulate(scalar, segment, kWeight, &sum_a).IgnoreError();
  DecodeAccumulate(simd, segment, kWeight, &sum_b).IgnoreError();
  LH_CHECK(SameBits(sum_a, sum_b), "scalar and SIMD add the same bits");
  if (valid.ok()) CheckDecoding(simd, segment);
}

void RunEncode(const Codec& scalar, const Codec& simd, const std::vector<float>& values) {
  std::vector<float> lost, same_lost, decoded;
  const absl::StatusOr<CodedSegmentBytes> segment = Encode(simd, values, &lost);
  CheckDocumented(segment.status(), {absl::StatusCode::kInvalidArgument});
  bool finite = true;
  for (const float value : values) finite &= std::isfinite(value);
  LH_CHECK(segment.ok() == finite, "finite values are coded, others refused");
  const absl::StatusOr<CodedSegmentBytes> same = Encode(scalar, values, &same_lost);
  LH_CHECK(same.ok() == segment.ok(), "kernels agree on what is coded");
  if (!segment.ok()) return;
  LH_CHECK(same->payload == segment->payload && same->base_exponent == segment->base_exponent,
           "scalar and SIMD code to the same bytes");
  LH_CHECK(SameBits(lost, same_lost), "scalar and SIMD lose the same bits");
  LH_CHECK(Validate(simd, *segment).ok(), "what is coded is valid");
  CheckDecoding(simd, *segment);
  LH_CHECK(Decode(simd, *segment, &decoded).ok(), "what is coded decodes");
  for (size_t i = 0; i < values.size(); ++i) {
    // A block of random codes that became zeros afterwards is rounded twice (README.md of the
    // codecs).
    LH_CHECK(lost[i] == values[i] - decoded[i] || simd.options().stochastic,
             "lost is what decoding does not give back");
  }
  if (simd.exact()) LH_CHECK(SameBits(decoded, values), "exact is exact");
}

}  // namespace

std::vector<Seed> Seeds() {
  std::vector<Seed> seeds;
  std::vector<float> values(300);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(i % 2 ? -1.25f : 1, i % 40 - 20);
  const absl::string_view bytes(reinterpret_cast<const char*>(values.data()), 1200);
  for (int kind = 1; kind <= kKinds; ++kind) {
    const auto codec = CodecOf(kind, 0, KernelKind::kScalar);
    if (codec == nullptr) continue;
    std::vector<float> lost;
    const CodedSegmentBytes segment = *Encode(*codec, values, &lost);
    const std::string payload(segment.payload.begin(), segment.payload.end());
    const auto seed = [&](int what, absl::string_view rest) {
      FuzzWriter input;
      input.Byte(what).Byte(kind - 1).Byte(0).Put(uint16_t{299}).Put(segment.base_exponent);
      return input.Byte(0).Bytes(rest).Take();
    };
    const std::string name(codec->name());
    seeds.push_back({"decode_" + name, seed(0, payload)});
    seeds.push_back({"encode_" + name, seed(1, bytes)});
  }
  return seeds;
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const bool encode = input.Flag();
  const int kind = input.Choice(1, kKinds);
  const uint8_t options = input.Byte();
  const auto scalar = CodecOf(kind, options, KernelKind::kScalar);
  const auto simd = CodecOf(kind, options, KernelKind::kSimd);
  if (scalar == nullptr || simd == nullptr) return 0;
  CodedSegmentBytes segment{.elements = input.Take<uint16_t>() % kElementsMax + 1,
                            .base_exponent = input.Take<int32_t>()};
  const bool sized = input.Flag();
  const absl::string_view rest = input.Rest();
  if (encode) {
    std::vector<float> values(segment.elements);
    std::memcpy(values.data(), rest.data(), std::min(rest.size(), values.size() * sizeof(float)));
    RunEncode(*scalar, *simd, values);
    return 0;
  }
  segment.payload.assign(rest.begin(), rest.end());
  if (sized) segment.payload.resize(scalar->PayloadBytes(segment.elements));
  RunDecode(*scalar, *simd, segment);
  return 0;
}

}  // namespace longhaul::fuzz::codec_fuzz
