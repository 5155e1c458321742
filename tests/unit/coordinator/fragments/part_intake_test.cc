#include "coordinator/fragments/part_intake.h"

#include <gtest/gtest.h>

#include <limits>

#include "common/rpc/status_details.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul::coordinator {
namespace {

using Blocks = std::vector<BlockRange>;

// A job with one fragment of a million elements in the seed round (fp32). Its store is in memory.
constexpr int64_t kElements = 1'000'000, kBlocks = (kElements + 127) / 128;

class PartIntakeTest : public ::testing::Test {
 protected:
  PartIntakeTest() {
    const JobManifest manifest{.id = "id",
                               .name = "job",
                               .options = {.fragment_elements = {kElements},
                                           .log_file_bytes = LogFileBytesFor(kElements)}};
    job_ = *JobFragments::Create({.up = {.kind = CodecKind::kE3m0}, .manifest = manifest});
    job_->set_store(std::make_shared<SharedStore>(*JobStore::Create(&fs_, "job", manifest, 1)));
    for (int64_t i = 0; i < kElements; ++i) values_[i] = static_cast<float>(i % 1009);
  }

  // These blocks as one chunk.
  CodedChunk Chunk(const Blocks& blocks) const {
    CodedChunk chunk{.segments = CutSegments(blocks, kElements)};
    for (const SegmentRef& segment : chunk.segments) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(values_.data()) +
                          segment.first_block * kBlockElements * 4;
      chunk.pieces.emplace_back(bytes, segment.elements * 4);
      chunk.payload_bytes += segment.elements * 4;
    }
    return chunk;
  }
  PartIntake Intake() { return PartIntake(job_, job_->store(), key_); }
  Blocks Here() const { return job_->store()->contributions().Blocks(key_); }
  // The blocks of each part that a restart finds in the log.
  std::vector<Blocks> InLog() const {
    const std::unique_ptr<MemoryFileSystem> copy = fs_.CrashCopy(UnsyncedFate::kKept);
    const auto recovered = JobStore::Recover(copy.get(), "job", 1);
    EXPECT_TRUE(recovered.ok()) << recovered.status();
    std::vector<Blocks> parts;
    for (const StoredPart& part : (*recovered)->TakePending())
      parts.push_back(longhaul::BlocksOf(part.info.segments));
    return parts;
  }
  // Applies the complete contribution and compares the result.
  void ExpectSeeded() {
    const RoundInput round{
        .round = key_.round,
        .contributions = {
            {.pool = key_.pool, .parts = job_->store()->contributions().Parts(key_)}}};
    const auto commit = (*job_->store())->Apply(round);
    ASSERT_TRUE(commit.ok()) << commit.status();
    const auto outer = (*job_->store())->ReadOuter(0, 0, Blocks{{0, kBlocks}});
    ASSERT_TRUE(outer.ok()) << outer.status();
    const auto* const values = reinterpret_cast<const float*>(outer->payload.data());
    EXPECT_EQ(absl::MakeConstSpan(values, kElements), absl::MakeConstSpan(values_));
  }

  MemoryFileSystem fs_;
  std::vector<float> values_ = std::vector<float>(kElements);
  std::shared_ptr<JobFragments> job_;
  const ContributionKey key_{{0, 0, RoundKind::kSeed}, "site-a", "incarnation"};
};

TEST_F(PartIntakeTest, AChunkIsAPartAtOnce) {
  PartIntake intake = Intake();
  ASSERT_TRUE(intake.Take(Chunk({{0, 2048}})).ok());
  EXPECT_EQ(Here(), (Blocks{{0, 2048}}));
  EXPECT_EQ(InLog(), (std::vector<Blocks>{{{0, 2048}}}));
}

TEST_F(PartIntakeTest, SmallChunksAreJoined) {
  PartIntake intake = Intake();
  for (int64_t block = 0; block < 3000; block += 10) {
    ASSERT_TRUE(intake.Take(Chunk({{block, 10}})).ok());
  }
  EXPECT_EQ(InLog(), (std::vector<Blocks>{{{0, 1030}}, {{1030, 1030}}}));
  ASSERT_TRUE(intake.Take(Chunk({{3000, kBlocks - 3000}})).ok());
  ASSERT_TRUE(intake.Finish().ok());
  EXPECT_EQ(InLog().size(), 3u);
  EXPECT_EQ(Here(), (Blocks{{0, kBlocks}}));
  ExpectSeeded();
}

TEST_F(PartIntakeTest, BlocksThatHaveArrivedAreCutOut) {
  PartIntake first = Intake();
  ASSERT_TRUE(first.Take(Chunk({{100, 1500}, {4000, 1200}})).ok());
  PartIntake second = Intake();
  ASSERT_TRUE(second.Take(Chunk({{0, 2048}})).ok());
  EXPECT_EQ(InLog().back(), (Blocks{{0, 100}, {1600, 448}}));
  ASSERT_TRUE(second.Take(Chunk({{200, 1100}})).ok());
  EXPECT_EQ(InLog().size(), 2u) << "nothing new came";
  ASSERT_TRUE(second.Take(Chunk({{2048, kBlocks - 2048}})).ok());
  EXPECT_EQ(Here(), (Blocks{{0, kBlocks}}));
  ExpectSeeded();
}

// The coordinator stopped before it could acknowledge a push, and the round was committed while the
// push came again.
TEST_F(PartIntakeTest, APartOfACommittedRoundIsRefusedAsSuch) {
  PartIntake first = Intake(), late = Intake();
  ASSERT_TRUE(first.Take(Chunk({{0, kBlocks}})).ok());
  ASSERT_TRUE(first.Finish().ok());
  ExpectSeeded();
  job_->store()->contributions().Forget(key_.round);
  const absl::Status told = late.Take(Chunk({{0, 2048}}));
  EXPECT_TRUE(absl::IsFailedPrecondition(told)) << told;
  EXPECT_EQ(ErrorInfoOf(told), (ErrorDetail{"VERSION_MISMATCH", {{"have", "0"}}}));
}

TEST_F(PartIntakeTest, ABadValueIsRefusedWithItsBlockAndEarlierBlocksStay) {
  PartIntake intake = Intake();
  ASSERT_TRUE(intake.Take(Chunk({{0, 2048}})).ok());
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 1e30f}) {
    values_[3000 * 128] = bad;
    const absl::Status refused = intake.Take(Chunk({{2048, 2048}}));
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_EQ(ErrorInfoOf(refused),
              (ErrorDetail{"BAD_SEGMENT", {{"fragment", "0"}, {"block", "2560"}}}));
  }
  EXPECT_EQ(Here(), (Blocks{{0, 2048}}));
}

TEST_F(PartIntakeTest, ARefusedAppendGivesTheBlocksBack) {
  PartIntake intake(job_, job_->store(), {{0, 5}, "site-a", "incarnation"});
  const Codec& codec = job_->CodecFor(RoundKind::kOuter);
  const std::vector<float> zeros(kTileElements);
  CodedChunk chunk;
  std::vector<uint8_t> bytes;
  for (int64_t block = 0; block + kTileBlocks <= kBlocks; block += kTileBlocks) {
    std::vector<uint8_t> coded(codec.PayloadBytes(kTileElements));
    const int32_t exponent = codec.Encode({zeros}, {}, absl::MakeSpan(coded))->base_exponent;
    chunk.segments.push_back({block, kTileElements, exponent});
    bytes.insert(bytes.end(), coded.begin(), coded.end());
  }
  chunk.pieces = {bytes};
  chunk.payload_bytes = static_cast<int64_t>(bytes.size());
  absl::Status refused = intake.Take(chunk);
  if (refused.ok()) refused = intake.Finish();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_TRUE(job_->store()->contributions().Blocks(intake.key()).empty());
  EXPECT_TRUE(InLog().empty());
}

}  // namespace
}  // namespace longhaul::coordinator
