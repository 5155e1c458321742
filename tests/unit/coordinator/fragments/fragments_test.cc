#include "coordinator/fragments/fragments.h"

#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/match.h"
#include "common/checkpoint/manifest.h"
#include "common/io/digest.h"
#include "common/io/file_util.h"
#include "common/wire/proto_values.h"
#include "coordinator/fragments/part_intake.h"
#include "coordinator/fragments/stream_account.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/damaged_part.h"
#include "coordinator/store/data_folder.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_state_file.h"
#include "tests/unit/coordinator/fragments/fragments_fixture.h"

namespace longhaul::coordinator {
namespace {

// Checkpoints of large models take long, and logs grow until there are snapshots.
TEST_F(FragmentsTest, SnapshotsDoNotWaitBehindCheckpoints) {
  HandCrank snapshots;
  Fragments fragments({.data_dir = "data", .tile_threads = 1}, {.fs = &failing_,
                                                                .arbiter = &arbiter_,
                                                                .apply = &apply_,
                                                                .opening = &opening_,
                                                                .background = &background_,
                                                                .snapshots = &snapshots,
                                                                .metrics = &metrics_,
                                                                .log = &log_});
  const std::shared_ptr<JobFragments> job = Job("job", kElements);
  fragments.Add(job);
  fragments.Open("job", true,
                 [](absl::StatusOr<StoreContents> opened) { EXPECT_TRUE(opened.ok()); });
  opening_.RunAll();
  std::vector<float> values(kElements, 0.5f);
  const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(values.data()),
                                        values.size() * sizeof(float));
  PartIntake intake(job, job->store(), {{0, 0, RoundKind::kSeed}, "a", "1"});
  ASSERT_TRUE(intake
                  .Take({.segments = {{0, kElements}},
                         .pieces = {bytes},
                         .payload_bytes = static_cast<int64_t>(bytes.size())})
                  .ok());
  ASSERT_TRUE(intake.Finish().ok());
  fragments.Apply("job", Seed(), [](absl::StatusOr<CommitRecord> commit) {
    EXPECT_TRUE(commit.ok()) << commit.status();
  });
  apply_.RunAll();
  EXPECT_TRUE(snapshots.RunOne());
  EXPECT_FALSE(background_.RunOne());
}

TEST_F(FragmentsTest, AStoreThatFindsNoRoomIsATroubleOfTheDiskUntilItIsOpened) {
  failing_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kPreallocate ? absl::ResourceExhaustedError("no space") : absl::OkStatus();
  });
  EXPECT_FALSE(Open("job", true).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(fragments_.Health())) << fragments_.Health();
  failing_.SetDecision(nullptr);
  ASSERT_TRUE(Open("job", true).ok());
  EXPECT_TRUE(fragments_.Health().ok()) << fragments_.Health();
}

// The job waits for it alone.
TEST_F(FragmentsTest, AFinalCheckpointWithoutRoomIsATroubleOfTheDiskUntilItIsWritten) {
  ASSERT_TRUE(Open("job", true).ok());
  ASSERT_TRUE(Push("job").ok());
  ASSERT_TRUE(Apply("job", Seed()).ok());
  failing_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kWrite ? absl::ResourceExhaustedError("no space") : absl::OkStatus();
  });
  EXPECT_FALSE(Checkpoint("job").ok());
  EXPECT_TRUE(fragments_.Health().ok()) << "training goes on without this one";
  EXPECT_FALSE(Checkpoint("job", 60, /*last=*/true).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(fragments_.Health())) << fragments_.Health();
  EXPECT_TRUE(absl::StrContains(fragments_.Health().message(), "no space"));
  EXPECT_EQ(fragments_.Find("job")->full(), "no space");
  failing_.SetDecision(nullptr);
  EXPECT_TRUE(Checkpoint("job", 60, /*last=*/true).ok());
  EXPECT_TRUE(fragments_.Health().ok());
  failing_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kWrite ? absl::ResourceExhaustedError("no space") : absl::OkStatus();
  });
  EXPECT_FALSE(Checkpoint("job", 60, /*last=*/true).ok());
  fragments_.Retire("job");
  EXPECT_TRUE(fragments_.Health().ok()) << "the job was cancelled";
}

TEST_F(FragmentsTest, AStoreIsMadeOnRequestAndFoundLater) {
  EXPECT_TRUE(absl::IsNotFound(Open("job", false).status()));
  const absl::StatusOr<StoreContents> made = Open("job", true);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->fragments.size(), 1u);
  EXPECT_EQ(made->fragments[0].version, -1);
  ASSERT_TRUE(Push("job").ok());
  // A restart finds what the log holds.
  fragments_.Forget("job");
  fragments_.Add(Job("job", kElements));
  const absl::StatusOr<StoreContents> found = Open("job", false);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->fragments[0].contributors.size(), 1u);
  EXPECT_EQ(found->fragments[0].contributors[0].pool, "a");
  ASSERT_TRUE(Apply("job", Seed()).ok());
  EXPECT_FALSE(
      fragments_.Find("job")->store()->contributions().Whole({{0, 0, RoundKind::kSeed}, "a", "1"}))
      << "it is used up";
  EXPECT_EQ(Checkpoint("job")->step(), 60);
  EXPECT_TRUE(arbiter_.failed.empty());
}

TEST_F(FragmentsTest, AStoreIsOpenedWhileACheckpointOfAnotherJobIsWritten) {
  ASSERT_TRUE(Open("job", true).ok());
  fragments_.Checkpoint("job", v1::CheckpointManifest(), {}, [](auto) {});
  fragments_.Add(Job("another", kElements));
  absl::Status opened = absl::UnknownError("no answer");
  fragments_.Open("another", true, [&](absl::StatusOr<StoreContents> o) { opened = o.status(); });
  opening_.RunAll();
  EXPECT_TRUE(opened.ok()) << opened;
  RunAll();
}

// Its memory counts until then, and its files change until then.
TEST_F(FragmentsTest, AStoreIsClosedWhenItsLastWorkAndStreamHaveEnded) {
  ASSERT_TRUE(Open("job", true).ok());
  ASSERT_TRUE(Push("job").ok());
  bool applied = false, closed = false;
  fragments_.Apply("job", Seed(), [&](absl::StatusOr<CommitRecord> commit) {
    applied = commit.ok();
    EXPECT_FALSE(closed) << "whoever hears of the end of a work hears of it before";
  });
  std::shared_ptr<SharedStore> stream = fragments_.Find("job")->store();
  fragments_.Close("job", [&] { closed = true; });
  EXPECT_EQ(fragments_.Find("job")->store(), nullptr);
  EXPECT_TRUE(stream->closing());
  RunAll();
  EXPECT_TRUE(applied);
  RunAll();  // The snapshot that follows.
  EXPECT_FALSE(closed) << "a stream has it";
  stream.reset();
  EXPECT_TRUE(closed);
  closed = false;
  fragments_.Close("job", [&] { closed = true; });
  EXPECT_TRUE(closed) << "it is closed already";
  absl::Status removed = absl::UnknownError("no answer");
  fragments_.Remove("job", [&](absl::Status status) { removed = std::move(status); });
  RunAll();
  EXPECT_TRUE(removed.ok()) << removed;
  EXPECT_TRUE(absl::IsNotFound(disk_.List(JobFolder("data", "job")).status()));
}

TEST_F(FragmentsTest, StreamsOfAStoreThatIsClosedEnd) {
  ASSERT_TRUE(Open("job", true).ok());
  PushHandler push = fragments_.MakePushHandler();
  v1::PushHeader header;
  header.set_job_id("job");
  header.set_pool("a");
  header.set_kind(v1::SEED);
  header.set_codec(v1::FP32);
  header.set_weight(1);
  ASSERT_TRUE(push.on_header(header).ok());
  bool closed = false;
  fragments_.Close("job", [&] { closed = true; });
  EXPECT_TRUE(absl::IsUnavailable(push.on_chunk(header, {})));
  EXPECT_FALSE(closed);
  push = {};
  EXPECT_TRUE(closed);
}

// A download that takes longer than new checkpoints would begin again for ever.
TEST_F(FragmentsTest, ACheckpointThatIsReadOrThatAJobBeginsWithStays) {
  fragments_.Add(Job("few", kElements, SteadyTime, 1 << 20, /*checkpoints_keep=*/1));
  ASSERT_TRUE(Open("few", true).ok());
  ASSERT_TRUE(Push("few").ok());
  ASSERT_TRUE(Apply("few", Seed()).ok());
  const auto steps = [&] { return *CheckpointSteps(disk_, JobFolder("data", "few")); };
  ASSERT_TRUE(Checkpoint("few", 60).ok());
  std::shared_ptr<const void> reader = fragments_.HoldCheckpoint("few", 60);
  ASSERT_TRUE(Checkpoint("few", 70).ok());
  EXPECT_EQ(steps(), (std::vector<int64_t>{60, 70}));
  // Its next file may be opened a little later.
  reader.reset();
  arbiter_.initial_steps = {70};
  ASSERT_TRUE(Checkpoint("few", 80).ok());
  EXPECT_EQ(steps(), (std::vector<int64_t>{60, 70, 80}));
}

TEST_F(FragmentsTest, ACommitIsFoundAgainWithItsFields) {
  ASSERT_TRUE(Open("job", true).ok());
  ASSERT_TRUE(Push("job").ok());
  RoundOrder order = Seed();
  order.evaluator = "a";
  const absl::StatusOr<CommitRecord> commit = Apply("job", order);
  ASSERT_TRUE(commit.ok()) << commit.status();
  // The snapshot that follows holds the store.
  RunAll();
  fragments_.Forget("job");
  fragments_.Add(Job("job", kElements));
  const absl::StatusOr<StoreContents> found = Open("job", false);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->fragments[0].version, 0);
  EXPECT_EQ(found->fragments[0].commit->evaluator, "a");
  EXPECT_EQ(found->fragments[0].commit->digest, commit->digest);
  EXPECT_TRUE(found->fragments[0].contributors.empty());
}

TEST_F(FragmentsTest, UnknownJobsAreNotFound) {
  EXPECT_TRUE(absl::IsNotFound(Open("another", true).status()));
  EXPECT_TRUE(absl::IsNotFound(Apply("another", Seed()).status()));
  EXPECT_TRUE(absl::IsNotFound(Apply("job", Seed()).status())) << "its store is not open";
  EXPECT_TRUE(absl::IsNotFound(Checkpoint("job").status()));
  fragments_.Retire("another");
  fragments_.Retire("job");
  fragments_.Forget("another");
}

TEST_F(FragmentsTest, EveryMessageSaysThatTooManyTasksWait) {
  opening_.refuses = true;
  EXPECT_TRUE(absl::IsUnavailable(Open("job", true).status()));
  opening_.refuses = false;
  ASSERT_TRUE(Open("job", true).ok());
  ASSERT_TRUE(Push("job").ok());
  apply_.refuses = background_.refuses = true;
  EXPECT_TRUE(absl::IsUnavailable(Apply("job", Seed()).status()));
  EXPECT_TRUE(absl::IsUnavailable(Checkpoint("job").status()));
  apply_.refuses = false;
  EXPECT_TRUE(Apply("job", Seed()).ok()) << "that no snapshot was looked at matters to nobody";
  EXPECT_FALSE(fragments_.Find("job")->store()->snapshot_asked);
}

TEST_F(FragmentsTest, RefusesAStoreWithFragmentsOfOtherSizes) {
  ASSERT_TRUE(Open("job", true).ok());
  fragments_.Add(Job("job", kElements + 1));
  EXPECT_TRUE(absl::IsDataLoss(Open("job", false).status()));
  EXPECT_EQ(fragments_.Find("job")->store(), nullptr);
}

// The disk changed a byte of what was logged.
TEST_F(FragmentsTest, ADamagedContributionIsNoLongerCompleteAndMayBePushedAgain) {
  ASSERT_TRUE(Open("job", true).ok());
  ASSERT_TRUE(Push("job").ok());
  Contributions& contributions = fragments_.Find("job")->store()->contributions();
  const ContributionKey key{{0, 0, RoundKind::kSeed}, "a", "1"};
  const StoredPart part = contributions.Parts(key).at(0);
  const auto file = *disk_.Open(JoinPath(LogFolder(JobFolder("data", "job")), LogFileName(1)));
  ASSERT_TRUE(file->WriteAt(part.payload.offset + 10, "x").ok());
  const absl::Status refused = Apply("job", Seed()).status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_EQ(DamagedPartOf(refused)->pool, "a");
  EXPECT_TRUE(arbiter_.failed.empty());
  EXPECT_FALSE(contributions.Whole(key));
  ASSERT_TRUE(Push("job").ok());
  EXPECT_TRUE(contributions.Whole(key));
  EXPECT_TRUE(Apply("job", Seed()).ok());
}

// Tasks may run in any order, and one at a time beside another one.
TEST_F(FragmentsTest, TheLastNoteOfAJobsStateCounts) {
  const std::string dir = JobFolder("data", "job");
  fragments_.NoteState("job", {.state = JobState::kPaused});
  RunAll();
  EXPECT_EQ(ReadJobState(disk_, dir)->state, JobState::kRunning) << "there is nothing to adopt";
  ASSERT_TRUE(Open("job", true).ok());
  for (const JobState state : {JobState::kPaused, JobState::kRunning, JobState::kCancelled})
    fragments_.NoteState("job", {.state = state, .by = "me"});
  RunAll();
  EXPECT_EQ(ReadJobState(disk_, dir)->state, JobState::kCancelled);
  EXPECT_EQ(ReadJobState(disk_, dir)->by, "me");
  failing_.SetDecision([](int64_t, FileOp) { return absl::ResourceExhaustedError("no space"); });
  fragments_.NoteState("job", {.state = JobState::kCompleted});
  RunAll();
  EXPECT_TRUE(absl::StrContains(log_text_.str(), "its state is not noted in its folder"));
  EXPECT_EQ(ReadJobState(disk_, dir)->state, JobState::kCancelled);
}

TEST_F(FragmentsTest, AFatalErrorIsReportedOnceForEachJob) {
  ASSERT_TRUE(Open("job", true).ok());
  ASSERT_TRUE(Push("job").ok());
  failing_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kSync ? absl::DataLossError("input/output error") : absl::OkStatus();
  });
  EXPECT_FALSE(Apply("job", Seed()).ok());
  EXPECT_FALSE(Apply("job", Seed()).ok());
  EXPECT_EQ(arbiter_.failed, std::vector<std::string>{"job"});
}

TEST_F(FragmentsTest, AFullDiskIsReportedUntilSomethingIsLoggedAgain) {
  ASSERT_TRUE(Open("job", true).ok());
  bool full = true;
  failing_.SetDecision([&](int64_t, FileOp) {
    return full ? absl::ResourceExhaustedError("no space left") : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(Push("job")));
  EXPECT_TRUE(absl::IsResourceExhausted(fragments_.Health()));
  EXPECT_NE(fragments_.Find("job")->full(), "");
  full = false;
  EXPECT_TRUE(Push("job").ok());
  EXPECT_TRUE(fragments_.Health().ok());
  EXPECT_TRUE(arbiter_.failed.empty());
}

// A part may fit the log's file when a commit does not: it does not make the service ready.
TEST_F(FragmentsTest, AFullDiskIsReportedUntilTheRoundIsApplied) {
  // The file has a header and fifteen frames.
  fragments_.Add(Job("small", kElements, SteadyTime, /*log_file_bytes=*/1 << 16));
  ASSERT_TRUE(Open("small", true).ok());
  bool full = true;
  failing_.SetDecision([&](int64_t, FileOp op) {
    return full && op == FileOp::kPreallocate ? absl::ResourceExhaustedError("no space left")
                                              : absl::OkStatus();
  });
  for (char pool = 'a'; pool < 'a' + 14; ++pool)
    ASSERT_TRUE(Push("small", std::string(1, pool)).ok()) << pool;
  EXPECT_TRUE(fragments_.Health().ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Apply("small", Seed()).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(fragments_.Health()));
  full = false;
  EXPECT_TRUE(Push("small", "z").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(fragments_.Health()));
  EXPECT_TRUE(Apply("small", Seed()).ok());
  EXPECT_TRUE(fragments_.Health().ok()) << fragments_.Health();
}

// The pools of the job are gone, so nobody finds out that there is space again.
TEST_F(FragmentsTest, AFullDiskIsNotReportedForEverWhenNobodyComesAgain) {
  absl::Time now = absl::UnixEpoch();
  fragments_.Add(Job("left", kElements, [&] { return now; }));
  ASSERT_TRUE(Open("left", true).ok());
  failing_.SetDecision([&](int64_t, FileOp) { return absl::ResourceExhaustedError("no space"); });
  EXPECT_TRUE(absl::IsResourceExhausted(Push("left")));
  now += absl::Seconds(20);
  EXPECT_TRUE(absl::IsResourceExhausted(Push("left")));
  now += JobFragments::kFullFor - absl::Seconds(1);
  EXPECT_TRUE(absl::IsResourceExhausted(fragments_.Health()));
  now += absl::Seconds(2);
  EXPECT_TRUE(fragments_.Health().ok()) << fragments_.Health();
  EXPECT_EQ(fragments_.Find("left")->full(), "");
}

TEST_F(FragmentsTest, WhatAJobBeginsWithIsLookedForUnlessItIsTheUsersFolder) {
  const auto check = [&](const InitialCheckpoint& initial) {
    return fragments_.CheckInitial(**JobFragments::Create(
        {.manifest = {.id = "new", .options = {.fragment_elements = {1}}}, .initial = initial}));
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(check({.job = "job", .step = 60})));
  EXPECT_TRUE(absl::IsFailedPrecondition(check({.upload = "sent"})));
  EXPECT_TRUE(check({.folder = "/nowhere"}).ok()) << "its disk may hang";
  ASSERT_TRUE(Open("job", true).ok());
  ASSERT_TRUE(Push("job").ok());
  ASSERT_TRUE(Apply("job", Seed()).ok());
  ASSERT_TRUE(Checkpoint("job").ok());
  EXPECT_TRUE(check({.job = "job", .step = 60}).ok());
}

// A folder that a user sent, with a file of equal values.
class SeedTest : public FragmentsTest {
 protected:
  static constexpr char kFolder[] = "sent";

  void Send(float value) {
    const std::vector<float> values(kElements, value);
    v1::CheckpointManifest manifest;
    manifest.set_format_version(kManifestFormat);
    v1::CheckpointFragment& fragment = *manifest.add_fragments();
    fragment.set_elements(kElements);
    fragment.set_file("f.f32");
    *fragment.mutable_digest() = ToProto(DigestOf(BytesOf(values)));
    v1::CheckpointTensor& tensor = *manifest.add_tensors();
    tensor.set_name("w");
    tensor.add_shape(kElements);
    EXPECT_TRUE(CreateDirs(disk_, kFolder).ok());
    EXPECT_TRUE(WriteFileAtomically(disk_, JoinPath(kFolder, "f.f32"), BytesOf(values)).ok());
    EXPECT_TRUE(
        WriteFileAtomically(disk_, JoinPath(kFolder, kManifestFile), *ManifestToJson(manifest))
            .ok());
    fragments_.Add(*JobFragments::Create(
        {.manifest = {.id = "next",
                      .name = "next",
                      .options = {.fragment_elements = {kElements}, .log_file_bytes = 1 << 20}},
         .initial = InitialCheckpoint{.folder = kFolder, .tensors = {tensor}}}));
    EXPECT_TRUE(Open("next", true).ok());
  }
  absl::StatusOr<CommitRecord> Begin() {
    return Apply("next", {.round = {.kind = RoundKind::kSeed}});
  }
};

TEST_F(SeedTest, AJobBeginsWithAFolder) {
  Send(0.5f);
  const absl::StatusOr<CommitRecord> seeded = Begin();
  ASSERT_TRUE(seeded.ok()) << seeded.status();
  EXPECT_EQ(*(*fragments_.Find("next")->store())->Version(0), 0);
}

TEST_F(SeedTest, ValuesThatAreNotFiniteDoNotBecomeAVersion) {
  Send(std::numeric_limits<float>::quiet_NaN());
  const absl::Status status = Begin().status();
  EXPECT_TRUE(IsBadSeed(status)) << status;
  EXPECT_EQ(status.message(),
            "the initial checkpoint: sent/f.f32: w has values that are not finite");
  EXPECT_EQ(*(*fragments_.Find("next")->store())->Version(0), -1);
}

// The pools of such a job would begin again for ever.
TEST_F(SeedTest, ValuesThatAreNotFiniteAreFoundInAStoreOfAnEarlierVersion) {
  Send(0.5f);
  JobStore& store = **fragments_.Find("next")->store();
  const std::vector<float> values(kElements, std::numeric_limits<float>::quiet_NaN());
  const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(values.data()),
                                        values.size() * sizeof(float));
  const absl::StatusOr<StoredPart> part = store.AppendPart(
      {.round = {.kind = RoundKind::kSeed}, .pool = kCheckpointPool, .segments = {{0, kElements}}},
      {bytes});
  ASSERT_TRUE(part.ok()) << part.status();
  ASSERT_TRUE(store
                  .Apply({.round = {.kind = RoundKind::kSeed},
                          .contributions = {{.pool = kCheckpointPool, .parts = {*part}}}})
                  .ok());
  fragments_.Forget("next");
  fragments_.Add(Job("next", kElements));
  const absl::Status status = Open("next", false).status();
  EXPECT_TRUE(IsBadSeed(status)) << status;
  EXPECT_EQ(status.message(), "the initial checkpoint: fragment 0 has values that are not finite");
  EXPECT_TRUE(arbiter_.failed.empty());
}

// As of pools: the outer steps that follow stay finite.
TEST_F(SeedTest, HugeValuesDoNotBecomeAVersion) {
  Send(0x1p65f);
  const absl::Status status = Begin().status();
  EXPECT_TRUE(IsBadSeed(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "a value beyond 2^64")) << status;
  EXPECT_EQ(*(*fragments_.Find("next")->store())->Version(0), -1);
  EXPECT_TRUE(arbiter_.failed.empty());
}

// Its bytes in the log were changed; those of the folder are good.
TEST_F(SeedTest, ADamagedPartIsReadFromTheFolderAgain) {
  Send(0.5f);
  // As an attempt that a crash ended left it.
  const std::vector<float> values(kElements, 0.5f);
  const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(values.data()),
                                        values.size() * sizeof(float));
  const std::shared_ptr<JobFragments> job = fragments_.Find("next");
  const ContributionKey key{{0, 0, RoundKind::kSeed}, kCheckpointPool, kCheckpointPool};
  PartIntake intake(job, job->store(), key);
  ASSERT_TRUE(intake
                  .Take({.segments = {{0, kElements}},
                         .pieces = {bytes},
                         .payload_bytes = static_cast<int64_t>(bytes.size())})
                  .ok());
  ASSERT_TRUE(intake.Finish().ok());
  const StoredPart part = job->store()->contributions().Parts(key).at(0);
  const auto file = *disk_.Open(JoinPath(LogFolder(JobFolder("data", "next")), LogFileName(1)));
  ASSERT_TRUE(file->WriteAt(part.payload.offset + 10, "x").ok());
  const absl::Status first = Begin().status();
  EXPECT_TRUE(absl::IsUnavailable(first)) << first;
  EXPECT_TRUE(Begin().ok());
}

// A disk that is not there now may be there later.
TEST_F(SeedTest, AMissingFolderIsNoBadSeed) {
  Send(0.5f);
  ASSERT_TRUE(disk_.Remove(JoinPath(kFolder, "f.f32")).ok());
  const absl::Status status = Begin().status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_FALSE(IsBadSeed(status));
}

TEST_F(FragmentsTest, AStreamThatEndsAfterItsJobIsForgottenMakesNoSeriesOfIt) {
  const StreamAccount stream{fragments_.Find("job"), 0, "e3m0"};
  stream.Book(fragments_.parts(), "up", absl::OkStatus(), {.payload = 10, .total = 12});
  EXPECT_TRUE(absl::StrContains(registry_.Text(), R"(job_name="job")"));
  fragments_.Forget("job");
  metrics_.RemoveJob("job");
  stream.Book(fragments_.parts(), "up", absl::OkStatus(), {.payload = 10, .total = 12});
  EXPECT_FALSE(absl::StrContains(registry_.Text(), R"(job_name="job")"));
  EXPECT_TRUE(absl::StrContains(registry_.Text(), R"(job_name="")"));
}

}  // namespace
}  // namespace longhaul::coordinator
