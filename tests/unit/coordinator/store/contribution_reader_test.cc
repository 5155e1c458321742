#include "coordinator/store/contribution_reader.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/base/checked_math.h"
#include "gtest/gtest.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

constexpr int64_t kElements = kTileElements + 300;

class ContributionReaderTest : public testing::Test {
 protected:
  // Puts the values into the log, cut at these blocks into coded segments.
  Contribution Store(const std::vector<float>& values, std::vector<int64_t> cuts, double weight = 1,
                     CodecKind codec = CodecKind::kFp32) {
    Contribution input = {"pool", weight, {}};
    cuts.push_back(CeilDiv(values.size(), kBlockElements));
    int64_t block = 0;
    for (const int64_t end : cuts) {
      const auto part = absl::MakeConstSpan(values).subspan(block * kBlockElements,
                                                            (end - block) * kBlockElements);
      const CodedPart coded = Code({.codec = codec}, part, block);
      const auto frame = log_.Append(FrameType::kPart, "", {coded.payload});
      EXPECT_TRUE(frame.ok());
      input.parts.push_back({coded.info, frame->body, frame->body_digest});
      block = end;
    }
    return input;
  }
  std::vector<float> ReadAll(const std::vector<Contribution>& inputs) {
    auto reader = ContributionReader::Create(&log_, kElements, inputs);
    EXPECT_TRUE(reader.ok()) << reader.status();
    ContributionReader::Buffer buffer;
    WeightedMean mean;
    std::vector<float> all;
    for (int64_t begin = 0; begin < kElements; begin += kTileElements) {
      std::vector<float> tile(std::min(kTileElements, kElements - begin));
      EXPECT_TRUE(reader->ReadTile(begin / kBlockElements, tile.size(), &buffer, &mean).ok());
      EXPECT_TRUE(mean.Mean(0, absl::MakeSpan(tile)).ok());
      all.insert(all.end(), tile.begin(), tile.end());
    }
    return all;
  }

  MemoryFileSystem fs_;
  Log log_{&fs_, "", {.file_bytes = 1 << 20, .salt = 1}, LogStart()};
};

TEST_F(ContributionReaderTest, DoesNotDependOnHowRanksCutTheTiles) {
  const std::vector<float> a = NoiseOf(kElements, 1), b = NoiseOf(kElements, 2);
  const std::vector<float> whole = ReadAll({Store(a, {}, 1), Store(b, {}, 3)});
  EXPECT_EQ(ReadAll({Store(a, {1, 200, 513}, 1), Store(b, {100, 512}, 3)}), whole);
  for (int64_t i = 0; i < kElements; ++i) {
    volatile float first = 0.25f * a[i], second = 0.75f * b[i];
    ASSERT_EQ(whole[i], first + second);
  }
}

TEST_F(ContributionReaderTest, MixesCodecs) {
  const std::vector<float> ones(kElements, 1.0f);
  EXPECT_EQ(ReadAll({Store(ones, {}), Store(ones, {7}, 1, CodecKind::kBf16)}), ones);
}

TEST_F(ContributionReaderTest, ReadsASeedBitForBit) {
  std::vector<float> values = NoiseOf(kElements, 1);
  values[5] = -0.0f;
  auto reader = ContributionReader::Create(&log_, kElements, {Store(values, {3, 514})});
  ASSERT_TRUE(reader.ok());
  std::vector<float> out(kElements);
  ContributionReader::Buffer buffer;
  const auto tiles = absl::MakeSpan(out);
  ASSERT_TRUE(reader->ReadSeed(kTileBlocks, &buffer, tiles.subspan(kTileElements)).ok());
  ASSERT_TRUE(reader->ReadSeed(0, &buffer, tiles.first(kTileElements)).ok());
  EXPECT_EQ(BytesOf(out), BytesOf(values));
}

TEST_F(ContributionReaderTest, RefusesGapsDoublesAndWeights) {
  const Contribution good = Store(NoiseOf(kElements, 1), {1, 513});
  for (int i = 0; i < 3; ++i) {
    Contribution gap = good, twice = good;
    gap.parts.erase(gap.parts.begin() + i);
    twice.parts.push_back(good.parts[i]);
    for (const Contribution& bad : {gap, twice}) {
      EXPECT_TRUE(
          absl::IsInvalidArgument(ContributionReader::Create(&log_, kElements, {bad}).status()));
    }
  }
  for (const double weight : {0.0, -1.0, 1e-300, 1e300, std::nan("")}) {
    Contribution bad = good;
    bad.weight = weight;
    EXPECT_TRUE(
        absl::IsInvalidArgument(ContributionReader::Create(&log_, kElements, {bad}).status()));
  }
}

}  // namespace
}  // namespace longhaul
