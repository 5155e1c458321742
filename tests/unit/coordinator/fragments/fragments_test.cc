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
#include "coordinator/store/damaged_part.h"
#include "coordinator/store/data_folder.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_state_file.h"
#include "tests/unit/coordinator/fragments/fragments_fixture.h"

namespace longhaul::coordinator {
namespace {

TEST_F(FragmentsTest, AStoreIsMadeOnRequestAndFoundLater) {
  EXPECT_TRUE(absl::IsNotFound(Open("job", false).status()));
  const absl::StatusOr<OpenedStore> made = Open("job", true);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->fragments.size(), 1u);
  EXPECT_EQ(made->fragments[0].version, -1);
  ASSERT_TRUE(Push("job").ok());
  // A restart finds what the log holds.
  fragments_.Close("job");
  fragments_.Add(Job("job", kElements));
  const absl::StatusOr<OpenedStore> found = Open("job", false);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->fragments[0].contributors.size(), 1u);
  EXPECT_EQ(found->fragments[0].contributors[0].pool, "a");
  ASSERT_TRUE(Apply("job", Seed()).ok());
  EXPECT_FALSE(fragments_.Find("job")->contributions().Whole({0, 0, "a", "1"})) << "it is used up";
  EXPECT_EQ(Checkpoint("job")->step(), 60);
  EXPECT_TRUE(arbiter_.failed.empty());
}

TEST_F(FragmentsTest, AStoreIsOpenedWhileACheckpointOfAnotherJobIsWritten) {
  ASSERT_TRUE(Open("job", true).ok());
  fragments_.Checkpoint("job", v1::CheckpointManifest(), {}, [](auto) {});
  fragments_.Add(Job("another", kElements));
  absl::Status opened = absl::UnknownError("no answer");
  fragments_.Open("another", true, [&](absl::StatusOr<OpenedStore> o) { opened = o.status(); });
  opening_.RunAll();
  EXPECT_TRUE(opened.ok()) << opened;
  RunAll();
}

// Works of a job may run beside the removal of its files.
TEST_F(FragmentsTest, FilesStayWhileAWorkOfTheJobIsUnderWay) {
  absl::Status opened, removed;
  const auto remove = [&] {
    removed = absl::UnknownError("no answer");
    fragments_.Remove("job", [&](absl::Status status) { removed = std::move(status); });
  };
  fragments_.Open("job", true, [&](absl::StatusOr<OpenedStore> o) { opened = o.status(); });
  fragments_.Close("job");
  remove();
  EXPECT_TRUE(absl::IsUnavailable(removed)) << removed;
  RunAll();
  EXPECT_TRUE(opened.ok()) << opened;
  EXPECT_TRUE(disk_.List(JobFolder("data", "job")).ok());
  remove();
  RunAll();
  EXPECT_TRUE(removed.ok()) << removed;
  EXPECT_TRUE(absl::IsNotFound(disk_.List(JobFolder("data", "job")).status()));
}

// Whoever hears of the end of a work may begin the next one at once.
TEST_F(FragmentsTest, AWorkThatHasEndedHoldsNothing) {
  ASSERT_TRUE(Open("job", true).ok());
  fragments_.Close("job");
  absl::Status opened = absl::UnknownError("no answer");
  fragments_.RemoveLog("job", [&](absl::StatusOr<bool>) {
    fragments_.Add(Job("job", kElements));
    fragments_.Open("job", false, [&](absl::StatusOr<OpenedStore> o) { opened = o.status(); });
  });
  RunAll();
  RunAll();
  EXPECT_TRUE(opened.ok()) << opened;
}

TEST_F(FragmentsTest, ACommitIsFoundAgainWithItsFields) {
  ASSERT_TRUE(Open("job", true).ok());
  ASSERT_TRUE(Push("job").ok());
  Round round = Seed();
  round.evaluator = "a";
  const absl::StatusOr<CommitRecord> commit = Apply("job", round);
  ASSERT_TRUE(commit.ok()) << commit.status();
  // The snapshot that follows holds the store.
  RunAll();
  fragments_.Close("job");
  fragments_.Add(Job("job", kElements));
  const absl::StatusOr<OpenedStore> found = Open("job", false);
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
  fragments_.Close("another");
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
  EXPECT_FALSE(fragments_.Find("job")->snapshot_asked);
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
  Contributions& contributions = fragments_.Find("job")->contributions();
  const ContributionKey key{0, 0, "a", "1"};
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
  absl::StatusOr<CommitRecord> Begin() { return Apply("next", {.kind = RoundKind::kSeed}); }
};

TEST_F(SeedTest, AJobBeginsWithAFolder) {
  Send(0.5f);
  const absl::StatusOr<CommitRecord> seeded = Begin();
  ASSERT_TRUE(seeded.ok()) << seeded.status();
  EXPECT_EQ(*fragments_.Find("next")->store()->Version(0), 0);
}

TEST_F(SeedTest, ValuesThatAreNotFiniteDoNotBecomeAVersion) {
  Send(std::numeric_limits<float>::quiet_NaN());
  const absl::Status status = Begin().status();
  EXPECT_TRUE(IsBadSeed(status)) << status;
  EXPECT_EQ(status.message(),
            "the initial checkpoint: sent/f.f32: w has values that are not finite");
  EXPECT_EQ(*fragments_.Find("next")->store()->Version(0), -1);
}

// The pools of such a job would begin again for ever.
TEST_F(SeedTest, ValuesThatAreNotFiniteAreFoundInAStoreOfAnEarlierVersion) {
  Send(0.5f);
  JobStore& store = *fragments_.Find("next")->store();
  const std::vector<float> values(kElements, std::numeric_limits<float>::quiet_NaN());
  const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(values.data()),
                                        values.size() * sizeof(float));
  const absl::StatusOr<StoredPart> part = store.AppendPart(
      {.kind = RoundKind::kSeed, .pool = kCheckpointPool, .segments = {{0, kElements}}}, {bytes});
  ASSERT_TRUE(part.ok()) << part.status();
  ASSERT_TRUE(store
                  .Apply({.kind = RoundKind::kSeed,
                          .contributions = {{.pool = kCheckpointPool, .parts = {*part}}}})
                  .ok());
  fragments_.Close("next");
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
  EXPECT_EQ(*fragments_.Find("next")->store()->Version(0), -1);
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
  const ContributionKey key{0, 0, kCheckpointPool, kCheckpointPool};
  PartIntake intake(job, key, RoundKind::kSeed);
  ASSERT_TRUE(intake
                  .Take({.segments = {{0, kElements}},
                         .pieces = {bytes},
                         .payload_bytes = static_cast<int64_t>(bytes.size())})
                  .ok());
  ASSERT_TRUE(intake.Finish().ok());
  const StoredPart part = job->contributions().Parts(key).at(0);
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
  fragments_.Close("job");
  metrics_.RemoveJob("job");
  stream.Book(fragments_.parts(), "up", absl::OkStatus(), {.payload = 10, .total = 12});
  EXPECT_FALSE(absl::StrContains(registry_.Text(), R"(job_name="job")"));
  EXPECT_TRUE(absl::StrContains(registry_.Text(), R"(job_name="")"));
}

TEST_F(FragmentsTest, WorksInProgressKeepAClosedJobAlive) {
  ASSERT_TRUE(Open("job", true).ok());
  ASSERT_TRUE(Push("job").ok());
  bool done = false;
  fragments_.Apply("job", Seed(), [&](absl::StatusOr<CommitRecord> commit) { done = commit.ok(); });
  fragments_.Close("job");
  RunAll();
  EXPECT_TRUE(done);
  EXPECT_EQ(fragments_.Find("job"), nullptr);
}

}  // namespace
}  // namespace longhaul::coordinator
