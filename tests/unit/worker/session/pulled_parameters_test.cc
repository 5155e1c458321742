#include "worker/session/pulled_parameters.h"

#include <limits>
#include <utility>

#include "gtest/gtest.h"

namespace longhaul::session {
namespace {

constexpr int64_t kPulledElements = 300;  // Three blocks, the last one short.

class PulledParametersTest : public testing::Test {
 protected:
  // Blocks of `values`, each a segment, in pieces that end in the middle of one.
  static CodedChunk Chunk(const std::vector<float>& values, int64_t first_block,
                          int64_t end_block) {
    CodedChunk chunk;
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    int64_t end = 0;
    for (int64_t block = first_block; block < end_block; ++block) {
      end = std::min(kPulledElements, (block + 1) * kBlockElements);
      chunk.segments.push_back({block, static_cast<int32_t>(end - block * kBlockElements)});
    }
    const int64_t begin = first_block * kBlockElements * 4, cut = begin + 100;
    chunk.pieces.emplace_back(bytes + begin, cut - begin);
    chunk.pieces.emplace_back(bytes + cut, end * 4 - cut);
    return chunk;
  }
  // In memory that was used before.
  PulledParameters Make(std::shared_ptr<const std::vector<float>> base = nullptr) const {
    return PulledParameters({.map = &map_,
                             .codec = exact_.get(),
                             .base = std::move(base),
                             .values = std::vector<float>(kPulledElements, 77)});
  }
  static Digest128 DigestOfBlocks(const std::vector<float>& values, int64_t begin, int64_t end) {
    return DigestOf(BytesOf(absl::MakeConstSpan(values).subspan(begin, end - begin)));
  }

  const FragmentLayout layout_{
      .name = "0", .units = {{0, 0, kPulledElements}}, .elements = kPulledElements};
  const FragmentMap map_{layout_, OwnedBlocks(layout_, 0, 1)};
  const std::unique_ptr<Codec> exact_ = *MakeCodec({.kind = CodecKind::kFp32});
  const std::vector<float> twos_ = std::vector<float>(kPulledElements, 2);
};

TEST_F(PulledParametersTest, DecodesChunkByChunk) {
  PulledParameters pulled = Make();
  pulled.SetParts(1);
  pulled.Begin(0);
  ASSERT_TRUE(pulled.Take(0, Chunk(twos_, 0, 2)).ok());
  ASSERT_TRUE(pulled.Take(0, Chunk(twos_, 2, 3)).ok());
  ASSERT_TRUE(pulled.Verify(1, {DigestOfBlocks(twos_, 0, kPulledElements)}).ok());
  EXPECT_EQ(std::move(pulled).Release(), twos_);
}

TEST_F(PulledParametersTest, AddsToItsBase) {
  const auto base = std::make_shared<const std::vector<float>>(twos_);
  PulledParameters pulled = Make(base);
  pulled.SetParts(1);
  pulled.Begin(0);
  ASSERT_TRUE(pulled.Take(0, Chunk(twos_, 0, 1)).ok());
  pulled.Begin(0);
  ASSERT_TRUE(pulled.Take(0, Chunk(twos_, 0, 3)).ok());
  EXPECT_EQ(*base, twos_);
  const std::vector<float> fours(kPulledElements, 4);
  ASSERT_TRUE(pulled.Verify(1, {DigestOfBlocks(fours, 0, kPulledElements)}).ok());
  EXPECT_EQ(std::move(pulled).Release(), fours);
}

TEST_F(PulledParametersTest, EachPartHasItsDigest) {
  PulledParameters pulled = Make();
  pulled.SetParts(2);
  pulled.Begin(0), pulled.Begin(1);
  ASSERT_TRUE(pulled.Take(1, Chunk(twos_, 1, 3)).ok());
  ASSERT_TRUE(pulled.Take(0, Chunk(twos_, 0, 1)).ok());
  const Digest128 first = DigestOfBlocks(twos_, 0, 128), second = DigestOfBlocks(twos_, 128, 300);
  const absl::Status swapped = pulled.Verify(7, {second, first});
  EXPECT_TRUE(absl::IsDataLoss(swapped)) << swapped;
  EXPECT_NE(swapped.message().find("version 7"), std::string::npos);
  EXPECT_TRUE(pulled.Verify(7, {first, second}).ok());
}

TEST_F(PulledParametersTest, APartThatBeginsAnewForgetsWhatCame) {
  PulledParameters pulled = Make();
  pulled.SetParts(1);
  pulled.Begin(0);
  ASSERT_TRUE(pulled.Take(0, Chunk(std::vector<float>(kPulledElements, 9), 0, 2)).ok());
  pulled.Begin(0);
  ASSERT_TRUE(pulled.Take(0, Chunk(twos_, 0, 3)).ok());
  ASSERT_TRUE(pulled.Verify(1, {DigestOfBlocks(twos_, 0, kPulledElements)}).ok());
  EXPECT_EQ(std::move(pulled).Release(), twos_);
}

TEST_F(PulledParametersTest, RefusesWhatTheCodecRefuses) {
  PulledParameters pulled = Make();
  pulled.SetParts(1);
  pulled.Begin(0);
  std::vector<float> bad = twos_;
  bad[200] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(absl::IsInvalidArgument(pulled.Take(0, Chunk(bad, 0, 3))));
}

}  // namespace
}  // namespace longhaul::session
