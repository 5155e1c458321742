// What a pull is answered with, chunk by chunk.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/io/digest.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/status_details.h"
#include "common/wire/proto_values.h"
#include "tests/unit/coordinator/fragments/fragments_fixture.h"

namespace longhaul::coordinator {
namespace {

class PullTest : public FragmentsTest {
 protected:
  // Not a whole number of tiles or of chunks.
  static constexpr int32_t kLarge = 9 * kTileElements + 1000;

  PullTest() {
    const int32_t elements = kLarge;
    fragments_.Add(
        *JobFragments::Create({.up = {.kind = CodecKind::kFp32},
                               .manifest = {.id = "large",
                                            .name = "large",
                                            .options = {.fragment_elements = {elements, elements},
                                                        .down = {.kind = CodecKind::kInt8},
                                                        .log_file_bytes = 1 << 20}}}));
    EXPECT_TRUE(Open("large", true).ok());
    for (const int fragment : {0, 1}) Commit(fragment);
  }
  JobStore& store() { return **fragments_.Find("large")->store(); }
  // The next version of a fragment.
  void Commit(int fragment) {
    const int64_t version = *store().Version(fragment) + 1;
    const RoundKind kind = version == 0 ? RoundKind::kSeed : RoundKind::kOuter;
    std::vector<float> values(kLarge);
    for (int i = 0; i < kLarge; ++i) values[i] = static_cast<float>(i % 251 + version) / 256;
    const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(values.data()),
                                          values.size() * sizeof(float));
    const std::shared_ptr<JobFragments> job = fragments_.Find("large");
    PartIntake intake(job, job->store(), {{fragment, version, kind}, "a", "1"});
    const CodedChunk chunk{.segments = CutSegments(All(), kLarge),
                           .pieces = {bytes},
                           .payload_bytes = static_cast<int64_t>(bytes.size())};
    ASSERT_TRUE(intake.Take(chunk).ok());
    ASSERT_TRUE(intake.Finish().ok());
    const absl::StatusOr<CommitRecord> commit =
        Apply("large", {.round = {fragment, version, kind}, .contributors = {{"a", "1"}}});
    ASSERT_TRUE(commit.ok()) << commit.status();
  }
  static std::vector<BlockRange> All() { return {{0, CeilDiv(int64_t{kLarge}, kBlockElements)}}; }
  // The newest parameters, or the downlink of `version`.
  static v1::PullRequest Request(int64_t version = -1,
                                 const std::vector<BlockRange>& blocks = All()) {
    v1::PullRequest request;
    request.set_job_id("large");
    request.set_version(version);
    request.set_whole(version < 0);
    *request.mutable_blocks() = BlocksToProto(blocks);
    return request;
  }
  absl::StatusOr<PullSource> Begin(const v1::PullRequest& request) {
    return fragments_.MakePullHandler().on_request(request);
  }
  // Reads to the end.
  static absl::StatusOr<CodedBlocks> Finish(PullSource& source) {
    std::vector<SegmentRef> segments;
    std::vector<uint8_t> bytes;
    while (static_cast<int64_t>(bytes.size()) < source.header.payload_bytes()) {
      LH_ASSIGN_OR_RETURN(const CodedBlocks chunk, source.next());
      EXPECT_FALSE(chunk.segments.empty());
      EXPECT_LE(chunk.segments.size(), static_cast<size_t>(kChunkSegmentsMax));
      EXPECT_LE(chunk.payload.size(), static_cast<size_t>(kPayloadBytesMax));
      segments.insert(segments.end(), chunk.segments.begin(), chunk.segments.end());
      bytes.insert(bytes.end(), chunk.payload.span().begin(), chunk.payload.span().end());
    }
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), source.header.payload_bytes());
    CodedBlocks all{std::move(segments), AlignedBuffer(bytes.size())};
    std::copy(bytes.begin(), bytes.end(), all.payload.data());
    return all;
  }
  static Digest128 DigestOfBytes(const CodedBlocks& blocks) {
    return DigestOf({reinterpret_cast<const char*>(blocks.payload.data()), blocks.payload.size()});
  }
};

TEST_F(PullTest, APullHasExactlyTheRequestedBlocks) {
  Commit(0);
  std::vector<BlockRange> many;
  for (int64_t block = 0; block < All()[0].count; block += 2) many.push_back({block, 1});
  for (const std::vector<BlockRange>& blocks : {All(),
                                                std::vector<BlockRange>{{0, 1}},
                                                {{3, 600}, {1030, 1}},
                                                {{511, 2}, {4615, 1}},
                                                many}) {
    const int64_t elements = ElementsOf(blocks, kLarge);
    absl::StatusOr<PullSource> whole = Begin(Request(-1, blocks));
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->header.version(), 1);
    EXPECT_EQ(whole->header.codec(), v1::FP32);
    EXPECT_EQ(whole->header.payload_bytes(), 4 * elements);
    const absl::StatusOr<CodedBlocks> parameters = Finish(*whole);
    ASSERT_TRUE(parameters.ok()) << parameters.status();
    EXPECT_EQ(parameters->segments, CutSegments(blocks, kLarge));
    EXPECT_EQ(DigestFromProto(whole->header.digest()), DigestOfBytes(*parameters));
    absl::StatusOr<PullSource> down = Begin(Request(1, blocks));
    ASSERT_TRUE(down.ok()) << down.status();
    EXPECT_EQ(down->header.codec(), v1::INT8);
    EXPECT_EQ(down->header.digest().low(), whole->header.digest().low());
    const absl::StatusOr<CodedBlocks> coded = Finish(*down);
    ASSERT_TRUE(coded.ok()) << coded.status();
    ASSERT_EQ(coded->segments.size(), parameters->segments.size());
  }
}

// No reader keeps a version: one that a commit overtakes is told so, and pulls again.
TEST_F(PullTest, APullThatACommitOvertakesEndsAndTheNextOneCompletes) {
  absl::StatusOr<PullSource> slow = Begin(Request());
  ASSERT_TRUE(slow.ok()) << slow.status();
  ASSERT_TRUE(slow->next().ok());
  Commit(1);
  ASSERT_TRUE(slow->next().ok()) << "a commit of another fragment concerns nobody here";
  Commit(0);
  const absl::Status overtaken = slow->next().status();
  EXPECT_TRUE(absl::IsUnavailable(overtaken)) << overtaken;
  EXPECT_EQ(ErrorInfoOf(overtaken)->reason, "VERSION_MISMATCH");
  EXPECT_EQ(ErrorInfoOf(overtaken)->metadata.at("have"), "1");
  absl::StatusOr<PullSource> again = Begin(Request());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->header.version(), 1);
  const absl::StatusOr<CodedBlocks> parameters = Finish(*again);
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  EXPECT_EQ(DigestFromProto(again->header.digest()), DigestOfBytes(*parameters));
  EXPECT_TRUE(arbiter_.failed.empty());
}

// It cannot have that downlink any more.
TEST_F(PullTest, ADownlinkThatACommitOvertakesIsRefusedLikeAnyOldVersion) {
  Commit(0);
  absl::StatusOr<PullSource> slow = Begin(Request(1));
  ASSERT_TRUE(slow.ok()) << slow.status();
  Commit(1);
  ASSERT_TRUE(slow->next().ok()) << "it comes from the log now";
  Commit(0);
  for (const absl::Status& status : {slow->next().status(), Begin(Request(1)).status()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(ErrorInfoOf(status)->reason, "VERSION_MISMATCH");
  }
}

TEST_F(PullTest, ASeedHasNoDownlink) {
  EXPECT_TRUE(absl::IsFailedPrecondition(Begin(Request(0)).status()));
}

}  // namespace
}  // namespace longhaul::coordinator
