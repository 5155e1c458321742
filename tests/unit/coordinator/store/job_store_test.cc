#include "coordinator/store/job_store.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/io/file_util.h"
#include "coordinator/store/fatal.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

class JobStoreTest : public testing::Test {
 protected:
  void Create(const JobStoreOptions& options) {
    auto created = JobStore::Create(&fs_, "jobs/j", ManifestWith(options));
    ASSERT_TRUE(created.ok()) << created.status();
    store_ = *std::move(created);
  }
  std::vector<float> Outer(int fragment) { return OuterOf(*store_, fragment); }
  static JobStoreOptions OneElement() {
    JobStoreOptions options = SmallOptions();
    options.fragment_elements = {1};
    return options;
  }

  MemoryFileSystem memory_;
  FailingFileSystem fs_{&memory_};
  std::unique_ptr<JobStore> store_;
};

// Streaming DiLoCo's outer step on one number: theta = 1, mean of 3 and 5, lr 2, no momentum.
TEST_F(JobStoreTest, GoldenRound) {
  Create(OneElement());
  EXPECT_EQ(*store_->Version(0), -1);
  const auto seed = Round(*store_, 0, RoundKind::kSeed, {{1.0f}});
  ASSERT_TRUE(seed.ok()) << seed.status();
  EXPECT_EQ(seed->round.version, 0);
  EXPECT_EQ(seed->downlink_bytes, 0);
  EXPECT_EQ(seed->outer_parameter_norm, 1);
  const auto commit = Round(*store_, 0, RoundKind::kOuter, {{3.0f}, {5.0f}});
  ASSERT_TRUE(commit.ok()) << commit.status();
  EXPECT_THAT(Outer(0), testing::ElementsAre(-7.0f));
  EXPECT_EQ(commit->round.version, 1);
  EXPECT_THAT(commit->pools, testing::ElementsAre("pool0", "pool1"));
  EXPECT_EQ(commit->outer_gradient_norm, 4);
  EXPECT_EQ(commit->outer_parameter_norm, 7);
  EXPECT_EQ(commit->downlink_nmse, 0);
  EXPECT_EQ(commit->downlink_bytes, 4);
  const float theta = -7.0f;
  EXPECT_EQ(commit->digest, DigestOf(BytesOf({&theta, 1})));
  // The last round is a plain average: theta - mean(delta).
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kFinal, {{1.0f}, {2.0f}}).ok());
  EXPECT_THAT(Outer(0), testing::ElementsAre(-8.5f));
}

TEST_F(JobStoreTest, GoldenMomentum) {
  JobStoreOptions options = OneElement();
  options.outer_lr = 0.5;
  options.outer_momentum = 0.5;
  Create(options);
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kSeed, {{10.0f}}).ok());
  // buf = 4, step = .5 (4 + 2) = 3 ; buf = 4, step = .5 (2 + 2) = 2.
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kOuter, {{4.0f}}).ok());
  EXPECT_THAT(Outer(0), testing::ElementsAre(7.0f));
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kOuter, {{2.0f}}).ok());
  EXPECT_THAT(Outer(0), testing::ElementsAre(5.0f));
  // The final round does not use the momentum.
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kFinal, {{1.0f}}).ok());
  EXPECT_THAT(Outer(0), testing::ElementsAre(4.0f));
}

TEST_F(JobStoreTest, WeightsCount) {
  Create(OneElement());
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kSeed, {{0.0f}}).ok());
  const PartInfo info = {{0, 1, RoundKind::kOuter}, "p", CodecKind::kFp32, {}};
  RoundInput round = {{0, 1, RoundKind::kOuter}, {}, "evaluator"};
  round.contributions.push_back(*Push(*store_, info, {4.0f}, 1));
  round.contributions.push_back(*Push(*store_, info, {8.0f}, 3));
  const auto commit = store_->Apply(round);
  ASSERT_TRUE(commit.ok()) << commit.status();
  EXPECT_THAT(Outer(0), testing::ElementsAre(-14.0f));
  EXPECT_EQ(commit->evaluator, "evaluator");
  EXPECT_EQ(store_->LastCommit(0)->evaluator, "evaluator");
}

TEST_F(JobStoreTest, MeasuresContributionsWithoutAChange) {
  Create(OneElement());
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kSeed, {{1.0f}}).ok());
  PartInfo info = {{0, 1, RoundKind::kOuter}, "p", CodecKind::kFp32, {}, "1"};
  RoundInput round = {{0, 1, RoundKind::kOuter}, {}};
  for (const auto& [pool, value, weight] : {std::tuple("a", 3.0f, 1.0), {"b", -4.0f, 2.0}}) {
    info.pool = pool;
    round.contributions.push_back(*Push(*store_, info, {value}, weight));
  }
  const auto two = store_->Measure(round);
  ASSERT_TRUE(two.ok()) << two.status();
  ASSERT_EQ(two->size(), 2u);
  EXPECT_DOUBLE_EQ((*two)[0].norm, 3);
  EXPECT_DOUBLE_EQ((*two)[1].norm, 4);
  EXPECT_EQ((*two)[1].cosine, 0) << "of two none says which one is wrong";
  info.pool = "c";
  round.contributions.push_back(*Push(*store_, info, {5.0f}));
  const auto three = store_->Measure(round);
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_NEAR((*three)[1].norm, 4, 1e-6);
  EXPECT_NEAR((*three)[1].cosine, -1, 1e-6);
  EXPECT_NEAR((*three)[1].others, 1, 1e-6);
  EXPECT_EQ(*store_->Version(0), 0);
  round.round.version = 2;
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->Measure(round).status()));
}

// What guard.outer goes by, and what it left out, is in the log: replay needs no second verdict.
TEST_F(JobStoreTest, ACommitKeepsWhatWasLeftOut) {
  Create(OneElement());
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kSeed, {{0.0f}}).ok());
  PartInfo info = {{0, 1, RoundKind::kOuter}, "bad", CodecKind::kFp32, {}, "1"};
  ASSERT_TRUE(Push(*store_, info, {4000.0f}).ok());
  info.pool = "good";
  RoundInput round = {{0, 1, RoundKind::kOuter}, {*Push(*store_, info, {4.0f})}};
  round.outer = {.left_out = {{"bad", "1", "its norm"}},
                 .usual = {.norms = {4, 5}, .cosines = {0.5}}};
  ASSERT_TRUE(store_->Apply(round).ok());
  store_.reset();
  auto opened = JobStore::Recover(&fs_, "jobs/j");
  ASSERT_TRUE(opened.ok()) << opened.status();
  store_ = *std::move(opened);
  EXPECT_THAT(Outer(0), testing::ElementsAre(-8.0f));
  const OuterNote outer = store_->LastCommit(0)->outer;
  ASSERT_EQ(outer.left_out.size(), 1u);
  EXPECT_EQ(outer.left_out[0].pool, "bad");
  EXPECT_EQ(outer.left_out[0].incarnation, "1");
  EXPECT_EQ(outer.left_out[0].why, "its norm");
  EXPECT_THAT(outer.usual.norms, testing::ElementsAre(4, 5));
  EXPECT_THAT(outer.usual.cosines, testing::ElementsAre(0.5));
}

TEST_F(JobStoreTest, ASkippedRoundAdvancesTheVersionAlone) {
  Create(OneElement());
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kSeed, {{3.0f}}).ok());
  const auto commit = Round(*store_, 0, RoundKind::kSkipped, {});
  ASSERT_TRUE(commit.ok()) << commit.status();
  EXPECT_EQ(commit->round.version, 1);
  EXPECT_EQ(commit->digest, DigestOf(BytesOf({Outer(0).data(), 1})));
  EXPECT_THAT(Outer(0), testing::ElementsAre(3.0f));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(store_->ReadDownlink(0, 1, AllBlocks(*store_, 0)).status()));
}

TEST_F(JobStoreTest, ASeedKeepsEveryBit) {
  Create(SmallOptions());
  std::vector<float> values = NoiseOf(1000, 1);
  values[3] = -0.0f;
  values[7] = std::numeric_limits<float>::denorm_min();
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kSeed, {values}).ok());
  EXPECT_EQ(BytesOf(Outer(0)), BytesOf(values));
}

// After a pool added the downlink it has what the server holds, block for block, whichever blocks
// it pulls.
TEST_F(JobStoreTest, DownlinksReconstructTheParametersFromAnyRanges) {
  JobStoreOptions options = SmallOptions();
  // More than one frame of the downlink, and a short block.
  const int64_t elements = 5 * kTileElements + 1000;
  options.fragment_elements = {elements};
  options.down.kind = CodecKind::kE3m0;
  Create(options);
  const std::vector<float> seed = NoiseOf(elements, 1);
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kSeed, {seed}).ok());
  const auto commit = Round(*store_, 0, RoundKind::kOuter,
                            {NoiseOf(elements, 2), NoiseOf(elements, 3)}, CodecKind::kE3m0);
  ASSERT_TRUE(commit.ok()) << commit.status();
  EXPECT_GT(commit->downlink_nmse, 0.001);
  EXPECT_LT(commit->downlink_nmse, 0.1);
  const std::vector<float> outer = Outer(0);
  const std::unique_ptr<Codec> codec = *MakeCodec({.kind = CodecKind::kE3m0});
  const int64_t blocks = (elements + 127) / 128;
  for (const std::vector<BlockRange>& ranges :
       {std::vector<BlockRange>{{0, blocks}}, {{3, 600}, {1000, 1}}, {{511, 2}, {blocks - 1, 1}}}) {
    const auto down = store_->ReadDownlink(0, 1, ranges);
    ASSERT_TRUE(down.ok()) << down.status();
    absl::Span<const uint8_t> rest = down->payload.span();
    int64_t segment_elements = 0;
    for (const SegmentRef& segment : down->segments) {
      std::vector<float> decoded(segment.elements);
      const auto payload = rest.subspan(0, codec->PayloadBytes(segment.elements));
      rest.remove_prefix(payload.size());
      ASSERT_TRUE(
          codec->Decode({segment.elements, segment.base_exponent, payload}, absl::MakeSpan(decoded))
              .ok());
      segment_elements += segment.elements;
      const int64_t begin = segment.first_block * kBlockElements;
      for (int i = 0; i < segment.elements; ++i) {
        ASSERT_EQ(seed[begin + i] + decoded[i], outer[begin + i]) << begin + i;
      }
    }
    EXPECT_TRUE(rest.empty());
    EXPECT_EQ(segment_elements, ElementsOf(ranges, elements));
  }
}

// Every byte of the folder after some rounds of a fragment of several tiles.
std::map<std::string, std::string> FilesWith(int apply_threads) {
  JobStoreOptions options = SmallOptions();
  const int64_t elements = 7 * kTileElements + 300;
  options.fragment_elements = {elements};
  options.down = {.kind = CodecKind::kE3m0, .stochastic = true};
  options.outer_momentum = 0.9;
  options.snapshot_every = 1;
  MemoryFileSystem fs;
  const auto store = *JobStore::Create(&fs, "j", ManifestWith(options), apply_threads);
  EXPECT_TRUE(Round(*store, 0, RoundKind::kSeed, {NoiseOf(elements, 1)}).ok());
  for (const RoundKind kind : {RoundKind::kOuter, RoundKind::kOuter, RoundKind::kFinal}) {
    const uint64_t seed = 2 * (*store->Version(0) + 1);
    const std::vector<std::vector<float>> pools = {NoiseOf(elements, seed),
                                                   NoiseOf(elements, seed + 1)};
    EXPECT_TRUE(Round(*store, 0, kind, pools, CodecKind::kE3m0).ok());
  }
  EXPECT_TRUE(store->MaybeSnapshot().ok());
  std::map<std::string, std::string> files;
  for (const std::string& folder : {LogFolder("j"), SnapshotFolder("j")}) {
    const std::vector<std::string> names = *fs.List(folder);
    for (const std::string& name : names) {
      const std::string path = JoinPath(folder, name);
      files[path] = *ReadFile(fs, path, int64_t{1} << 30);
    }
  }
  const auto recovered = JobStore::Recover(&fs, "j", apply_threads);
  EXPECT_TRUE(recovered.ok()) << recovered.status();
  return files;
}

TEST_F(JobStoreTest, TheBytesDoNotDependOnTheNumberOfThreads) {
  const std::map<std::string, std::string> files = FilesWith(1);
  EXPECT_GE(files.size(), 2u);
  for (const int threads : {2, 3, 8, 64}) EXPECT_TRUE(FilesWith(threads) == files) << threads;
}

// The outer parameters after two rounds whose downlinks are rounded stochastically.
Digest128 RoundedWith(uint64_t noise_seed, uint64_t log_salt) {
  JobStoreOptions options = SmallOptions();
  options.fragment_elements = {1000};
  options.down = {.kind = CodecKind::kInt8, .stochastic = true};
  options.noise_seed = noise_seed;
  options.log_salt = log_salt;
  MemoryFileSystem fs;
  const auto store = *JobStore::Create(&fs, "j", ManifestWith(options), 1);
  EXPECT_TRUE(Round(*store, 0, RoundKind::kSeed, {NoiseOf(1000, 1)}).ok());
  for (const uint64_t seed : {2, 3})
    EXPECT_TRUE(Round(*store, 0, RoundKind::kOuter, {NoiseOf(1000, seed)}).ok());
  const Digest128 digest = store->LastCommit(0)->digest;
  const auto recovered = JobStore::Recover(&fs, "j", 1);
  EXPECT_TRUE(recovered.ok()) << recovered.status();
  if (recovered.ok()) {
    EXPECT_EQ((*recovered)->LastCommit(0)->digest, digest);
  }
  return digest;
}

TEST_F(JobStoreTest, TheSeedAloneSelectsHowADownlinkIsRounded) {
  EXPECT_EQ(RoundedWith(1, 42), RoundedWith(1, 43));
  EXPECT_NE(RoundedWith(1, 42), RoundedWith(2, 42));
}

TEST_F(JobStoreTest, AnOlderFragmentsDownlinkComesFromTheLog) {
  JobStoreOptions options = SmallOptions();
  options.fragment_elements = {1000, 1000};
  Create(options);
  std::vector<CodedBlocks> newest;
  for (int fragment = 0; fragment < 2; ++fragment) {
    ASSERT_TRUE(Round(*store_, fragment, RoundKind::kSeed, {NoiseOf(1000, 1)}).ok());
    ASSERT_TRUE(Round(*store_, fragment, RoundKind::kOuter, {NoiseOf(1000, 2 + fragment)}).ok());
    newest.push_back(*store_->ReadDownlink(fragment, 1, AllBlocks(*store_, fragment)));
  }
  const auto again = store_->ReadDownlink(0, 1, AllBlocks(*store_, 0));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->payload.span(), newest[0].payload.span());
  EXPECT_NE(newest[1].payload.span(), newest[0].payload.span());
}

TEST_F(JobStoreTest, ReadsAndDigestsRanges) {
  Create(SmallOptions());
  const std::vector<float> values = NoiseOf(1000, 1);
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kSeed, {values}).ok());
  std::vector<float> expected(values.begin() + 128, values.begin() + 256);
  expected.insert(expected.end(), values.begin() + 896, values.end());
  const std::vector<BlockRange> ranges = {{1, 1}, {7, 1}};
  const absl::StatusOr<CodedBlocks> outer = store_->ReadOuter(0, 0, ranges);
  ASSERT_TRUE(outer.ok()) << outer.status();
  EXPECT_THAT(outer->segments, testing::ElementsAre(SegmentRef{1, 128, 0}, SegmentRef{7, 104, 0}));
  EXPECT_EQ(FloatsOf(*outer), expected);
  EXPECT_EQ(store_->DigestOuter(0, ranges)->version, 0);
  EXPECT_EQ(store_->DigestOuter(0, ranges)->digest, DigestOf(BytesOf(expected)));
  EXPECT_EQ(store_->DigestOuter(0, AllBlocks(*store_, 0))->digest, DigestOf(BytesOf(values)));
  EXPECT_EQ(store_->LastCommit(0)->digest, DigestOf(BytesOf(values)));
}

// Readers hold nothing here. So one that is slow notices that what it reads is no longer there.
TEST_F(JobStoreTest, OnlyTheNewestVersionIsRead) {
  Create(SmallOptions());
  const auto all = AllBlocks(*store_, 0);
  for (int64_t version = 0; version < 3; ++version) {
    const RoundKind kind = version == 0 ? RoundKind::kSeed : RoundKind::kOuter;
    ASSERT_TRUE(Round(*store_, 0, kind, {NoiseOf(1000, version)}).ok());
    EXPECT_EQ(store_->DigestOuter(0, all)->version, version);
    EXPECT_EQ(store_->DigestOuter(0, all)->has_downlink, version > 0);
    for (const int64_t other : {version - 1, version + 1}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(store_->ReadOuter(0, other, all).status())) << other;
      EXPECT_TRUE(absl::IsFailedPrecondition(store_->ReadDownlink(0, other, all).status()));
    }
    EXPECT_TRUE(store_->ReadOuter(0, version, all).ok());
    EXPECT_EQ(store_->ReadDownlink(0, version, all).ok(), version > 0);
  }
}

// Rounds of two fragments, with readers of both: what a read returns is of one version, and the
// memory of a downlink that is read is not taken for the next one.
TEST_F(JobStoreTest, ReadsBesideRoundsAreOfOneVersion) {
  JobStoreOptions options = SmallOptions();
  constexpr int64_t kElements = 3 * kTileElements;
  options.fragment_elements = {kElements, kElements};
  Create(options);
  constexpr int kRounds = 12;
  // Each round subtracts twice its delta, which is the same in all elements. It is coded exactly.
  const auto commit = [&](int fragment, RoundKind kind, float value) {
    return Round(*store_, fragment, kind, {std::vector<float>(kElements, value)}).status();
  };
  for (const int fragment : {0, 1}) ASSERT_TRUE(commit(fragment, RoundKind::kSeed, 0).ok());
  std::atomic<int> reads = 0;
  const auto read = [&](int fragment) {
    const auto all = AllBlocks(*store_, fragment);
    while (true) {
      const int64_t version = *store_->Version(fragment);
      const auto outer = store_->ReadOuter(fragment, version, all);
      const auto down = store_->ReadDownlink(fragment, version, all);
      for (const auto& [blocks, expected] :
           {std::pair(&outer, -2.0f * static_cast<float>(version)), std::pair(&down, -2.0f)}) {
        if (!blocks->ok()) continue;
        EXPECT_EQ(FloatsOf(**blocks), std::vector<float>(kElements, expected)) << version;
        ++reads;
      }
      if (version == kRounds) return;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (const int fragment : {0, 1, 0, 1}) threads.emplace_back(read, fragment);
    for (const int fragment : {0, 1}) {
      threads.emplace_back([&, fragment] {
        for (int i = 0; i < kRounds; ++i) EXPECT_TRUE(commit(fragment, RoundKind::kOuter, 1).ok());
      });
    }
  }
  EXPECT_GE(reads, 8) << "the last versions";
}

TEST_F(JobStoreTest, RefusesRangesOutsideTheFragment) {
  Create(SmallOptions());
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kSeed, {NoiseOf(1000, 1)}).ok());
  for (const std::vector<BlockRange>& ranges : {std::vector<BlockRange>{{0, 9}},
                                                {{-1, 1}},
                                                {{8, 1}},
                                                {{0, 0}},
                                                {{1, 1}, {0, 1}},
                                                {{1, 2}, {2, 1}},
                                                {{1, std::numeric_limits<int64_t>::max()}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(store_->ReadOuter(0, 0, ranges).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(store_->DigestOuter(0, ranges).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(store_->ReadDownlink(0, 0, ranges).status()));
  }
  EXPECT_TRUE(absl::IsNotFound(store_->ReadOuter(2, 0, {}).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->Version(-1).status()));
}

TEST_F(JobStoreTest, ServesTheNewestDownlinkOnly) {
  Create(OneElement());
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->ReadOuter(0, 0, AllBlocks(*store_, 0)).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->LastCommit(0).status()));
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kSeed, {{1.0f}}).ok());
  const auto all = AllBlocks(*store_, 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->ReadDownlink(0, 0, all).status()));
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kOuter, {{1.0f}}).ok());
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kOuter, {{1.0f}}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->ReadDownlink(0, 1, all).status()));
  EXPECT_TRUE(store_->ReadDownlink(0, 2, all).ok());
}

TEST_F(JobStoreTest, RefusesPartsOfOtherVersionsAndKinds) {
  Create(OneElement());
  PartInfo info = {{0, 1, RoundKind::kOuter}, "p", CodecKind::kFp32, {}};
  EXPECT_TRUE(absl::IsFailedPrecondition(Push(*store_, info, {1.0f}).status()));
  info.round.version = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(Push(*store_, info, {1.0f}).status()));
  info.round.kind = RoundKind::kSeed;
  info.codec = CodecKind::kBf16;
  EXPECT_TRUE(absl::IsInvalidArgument(Push(*store_, info, {1.0f}).status()));
  info.codec = CodecKind::kFp32;
  EXPECT_TRUE(Push(*store_, info, {1.0f}).ok());
  info.round.fragment = 1;
  EXPECT_TRUE(absl::IsNotFound(Push(*store_, info, {1.0f}).status()));
}

TEST_F(JobStoreTest, RefusesContributionsThatAreNotWhole) {
  Create(SmallOptions());
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kSeed, {NoiseOf(1000, 1)}).ok());
  const PartInfo info = {{0, 1, RoundKind::kOuter}, "p", CodecKind::kFp32, {}};
  const Contribution whole = *Push(*store_, info, NoiseOf(1000, 2));
  Contribution half = whole, twice = whole, unknown = whole, light = whole, nan = whole;
  half.parts.pop_back();
  twice.parts.push_back(whole.parts[0]);
  unknown.parts[0].info.round.version = 0;
  light.weight = 0;
  nan.weight = std::nan("");
  for (const Contribution& bad : {half, twice, unknown, light, nan}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        store_->Apply({0, 1, RoundKind::kOuter, {whole, bad}, ""}).status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Apply({0, 1, RoundKind::kOuter, {}, ""}).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(store_->Apply({0, 1, RoundKind::kSkipped, {whole}, ""}).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(store_->Apply({0, 1, RoundKind::kFinal, {whole}, ""}).status()));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(store_->Apply({0, 2, RoundKind::kOuter, {whole}, ""}).status()));
  // None of the calls changed anything.
  EXPECT_EQ(*store_->Version(0), 0);
  EXPECT_TRUE(store_->Apply({0, 1, RoundKind::kOuter, {whole}, ""}).ok());
}

TEST_F(JobStoreTest, CreateAndRecoverTellWhatIsThere) {
  EXPECT_TRUE(absl::IsNotFound(JobStore::Recover(&fs_, "jobs/j").status()));
  Create(SmallOptions());
  EXPECT_TRUE(absl::IsAlreadyExists(
      JobStore::Create(&fs_, "jobs/j", ManifestWith(SmallOptions())).status()));
  store_.reset();
  const auto recovered = JobStore::Recover(&fs_, "jobs/j");
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ((*recovered)->options().log_salt, 42u);
  EXPECT_EQ(*(*recovered)->Version(1), -1);
}

TEST_F(JobStoreTest, PartsOfTheNextRoundSurviveARestartAndCount) {
  Create(SmallOptions());
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kSeed, {NoiseOf(1000, 1)}).ok());
  ASSERT_TRUE(Round(*store_, 1, RoundKind::kSeed, {NoiseOf(384, 2)}).ok());
  PartInfo info = {{0, 1, RoundKind::kOuter}, "pool0", CodecKind::kFp32, {}};
  info.incarnation = "first";
  const Contribution pushed = *Push(*store_, info, NoiseOf(1000, 3));
  // The caller has them already.
  EXPECT_TRUE(store_->TakePending().empty());
  store_.reset();
  store_ = *JobStore::Recover(&fs_, "jobs/j");
  const auto pending = store_->TakePending();
  ASSERT_EQ(pending.size(), 2u);
  EXPECT_EQ(pending[0].sequence, pushed.parts[0].sequence);
  EXPECT_EQ(pending[0].info.incarnation, "first");
  EXPECT_EQ(pending[1].info.segments[0].first_block, 0);
  EXPECT_TRUE(store_->TakePending().empty());
  ASSERT_TRUE(store_->Apply({0, 1, RoundKind::kOuter, {{"pool0", 1, pending}}, ""}).ok());
  EXPECT_TRUE(store_->TakePending().empty());
  const Digest128 digest = store_->LastCommit(0)->digest;
  store_.reset();
  store_ = *JobStore::Recover(&fs_, "jobs/j");
  EXPECT_EQ(store_->LastCommit(0)->digest, digest);
  EXPECT_TRUE(store_->TakePending().empty());
}

TEST_F(JobStoreTest, RefusesImpossibleOptions) {
  for (const auto& spoil : std::vector<void (*)(JobStoreOptions&)>{
           [](JobStoreOptions& o) { o.fragment_elements.clear(); },
           [](JobStoreOptions& o) { o.fragment_elements[0] = 0; },
           [](JobStoreOptions& o) { o.outer_lr = std::nan(""); },
           [](JobStoreOptions& o) { o.outer_momentum = 1; },
           [](JobStoreOptions& o) { o.snapshot_every = 0; },
           [](JobStoreOptions& o) { o.checkpoints_keep = 0; },
           [](JobStoreOptions& o) { o.log_file_bytes = 0; }}) {
    JobStoreOptions options = SmallOptions();
    spoil(options);
    EXPECT_TRUE(
        absl::IsInvalidArgument(JobStore::Create(&fs_, "jobs/x", ManifestWith(options)).status()));
  }
}

// A failed sync is final: nothing is published and nothing is retried.
TEST_F(JobStoreTest, AFailedSyncEndsTheStore) {
  Create(OneElement());
  ASSERT_TRUE(Round(*store_, 0, RoundKind::kSeed, {{1.0f}}).ok());
  fs_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kSync ? absl::DataLossError("the device failed") : absl::OkStatus();
  });
  const auto failed = Round(*store_, 0, RoundKind::kOuter, {{1.0f}});
  EXPECT_TRUE(absl::IsDataLoss(failed.status()));
  EXPECT_TRUE(IsFatal(failed.status()));
  EXPECT_EQ(*store_->Version(0), 0);
  fs_.SetDecision(nullptr);
  const auto all = AllBlocks(*store_, 0);
  EXPECT_TRUE(IsFatal(Round(*store_, 0, RoundKind::kOuter, {{1.0f}}).status()));
  EXPECT_TRUE(IsFatal(store_->ReadOuter(0, 0, all).status()));
  EXPECT_TRUE(IsFatal(store_->DigestOuter(0, all).status()));
  EXPECT_TRUE(IsFatal(store_->ReadDownlink(0, 0, all).status()));
  EXPECT_TRUE(IsFatal(store_->MaybeSnapshot()));
  EXPECT_TRUE(IsFatal(store_->WriteCheckpoint({}).status()));
}

TEST_F(JobStoreTest, SnapshotsTakeTurnsAndTheLogShrinks) {
  Create(SmallOptions());
  for (int version = 0; version < 20; ++version) {
    for (const int fragment : {0, 1}) {
      const int64_t elements = store_->options().fragment_elements[fragment];
      const RoundKind kind = version == 0 ? RoundKind::kSeed : RoundKind::kOuter;
      ASSERT_TRUE(Round(*store_, fragment, kind, {NoiseOf(elements, version)}).ok());
      ASSERT_TRUE(store_->MaybeSnapshot().ok());
    }
  }
  EXPECT_THAT(
      *memory_.List("jobs/j/snap"),
      testing::ElementsAre("fragment-00000-0000000015.snap", "fragment-00000-0000000018.snap",
                           "fragment-00001-0000000014.snap", "fragment-00001-0000000017.snap"));
  const auto segments = *memory_.List("jobs/j/log");
  EXPECT_LT(segments.size(), 6u);
  EXPECT_GT(segments.front(), "0000000003.log");
}

// What would not fit is not begun, so that it does not take the space of commits meanwhile.
TEST_F(JobStoreTest, WhatTheDiskHasNoRoomForIsNotBegun) {
  class SmallDisk : public FailingFileSystem {
   public:
    using FailingFileSystem::FailingFileSystem;
    absl::StatusOr<int64_t> FreeBytes(const std::string&) override { return free; }
    int64_t free = 0;
  };
  SmallDisk disk(&memory_);
  store_ = *JobStore::Create(&disk, "jobs/j", ManifestWith(SmallOptions()));
  for (int version = 0; version < 3; ++version) {
    const RoundKind kind = version == 0 ? RoundKind::kSeed : RoundKind::kOuter;
    ASSERT_TRUE(Round(*store_, 0, kind, {NoiseOf(1000, version)}).ok());
    ASSERT_TRUE(Round(*store_, 1, kind, {NoiseOf(384, version)}).ok());
  }
  disk.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kCreate || op == FileOp::kWrite ? absl::DataLossError("it was begun")
                                                         : absl::OkStatus();
  });
  const absl::Status snapshot = store_->MaybeSnapshot();
  EXPECT_TRUE(absl::IsResourceExhausted(snapshot)) << snapshot;
  // The next files of the logs keep their room.
  disk.free = (1000 + 384) * 4 + 2 * SmallOptions().log_file_bytes - 1;
  const absl::Status checkpoint = store_->WriteCheckpoint({}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(checkpoint)) << checkpoint;
  disk.SetDecision(nullptr);
  EXPECT_TRUE(store_->MaybeSnapshot().ok());
  ++disk.free;
  EXPECT_TRUE(store_->WriteCheckpoint({}).ok());
}

TEST_F(JobStoreTest, ThreadsPushWhileRoundsAreApplied) {
  JobStoreOptions options = SmallOptions();
  options.fragment_elements = {2000, 2000, 2000, 2000};
  Create(options);
  constexpr int kRounds = 12;
  std::vector<std::thread> threads;
  for (int fragment = 0; fragment < 4; ++fragment) {
    threads.emplace_back([&, fragment] {
      for (int version = 0; version < kRounds; ++version) {
        const RoundKind kind = version == 0 ? RoundKind::kSeed : RoundKind::kOuter;
        const auto commit = Round(*store_, fragment, kind, {NoiseOf(2000, version)});
        ASSERT_TRUE(commit.ok()) << commit.status();
        ASSERT_EQ(DigestOf(BytesOf(Outer(fragment))), commit->digest);
        ASSERT_TRUE(store_->MaybeSnapshot().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Digest128 digest = store_->LastCommit(0)->digest;
  store_.reset();
  const auto recovered = JobStore::Recover(&fs_, "jobs/j");
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  for (int fragment = 0; fragment < 4; ++fragment) {
    EXPECT_EQ((*recovered)->LastCommit(fragment)->digest, digest);
  }
}

}  // namespace
}  // namespace longhaul
