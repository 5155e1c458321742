// What the coordinator does when its disk is full, and when it can guarantee nothing more.
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/io/posix_filesystem.h"
#include "tests/integration/coordinator/exchange_fixture.h"
#include "tests/testing/failing_filesystem.h"

namespace longhaul {
namespace {

class StoreFaultsTest : public ExchangeFixture {
 protected:
  coordinator::CoordinatorServerOptions Options() override {
    coordinator::CoordinatorServerOptions options = ExchangeFixture::Options();
    options.fs = &fs_;
    options.on_fatal = [this](const absl::Status&) {
      EXPECT_FALSE(fatal_.HasBeenNotified());
      fatal_.Notify();
    };
    return options;
  }
  // The server must end before the file system that it uses.
  void TearDown() override { server_.reset(); }
  void Begin() {
    const auto submitted = Submit(Spec("job"));
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    id_ = submitted->job().id();
    members_ = MakeMembers({"site-a", "site-b"});
    ExchangeFixture::Begin(id_, members_);
  }
  HandPool& pool(int index) { return members_[index]->pool; }
  void Complete(int64_t done) {
    Rounds(members_, done);
    Finish(members_, 2.5);
    EXPECT_TRUE(Await("job", v1::COMPLETED).ok());
  }

  const std::unique_ptr<FileSystem> disk_ = MakePosixFileSystem();
  FailingFileSystem fs_{disk_.get()};
  absl::Notification fatal_;
  std::string id_;
  Members members_;
};

TEST_F(StoreFaultsTest, AFullDiskRefusesTheContributionUntilThereIsRoom) {
  Begin();
  if (HasFatalFailure()) return;
  fs_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kWrite ? absl::ResourceExhaustedError("no space") : absl::OkStatus();
  });
  const absl::Status full = pool(0).Push(1, 1, v1::OUTER, CodecKind::kFp32, Ramp(1)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_TRUE(RetryDelayOf(full).has_value());
  fs_.SetDecision(nullptr);
  Complete(0);
}

TEST_F(StoreFaultsTest, ARoundThatFindsTheDiskFullIsAppliedLater) {
  // The first megabyte of the log holds two seeds and a contribution. The round's own record needs
  // another.
  constexpr int64_t kLarge = 75000;
  v1::JobSpec spec = Spec("large", 1);
  spec.mutable_model()->mutable_synthetic()->set_elements(kLarge);
  const auto submitted = Submit(spec);
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  HandPool pool(address(), "site-a");
  ASSERT_TRUE(pool.Join().ok());
  ASSERT_TRUE(pool.OpenPlan(submitted->job().id()).ok());
  // It is asked to seed.
  ASSERT_TRUE(pool.NextEvent().ok());
  auto full = std::make_shared<std::atomic<bool>>(true);
  auto refusals = std::make_shared<std::atomic<int>>(0);
  fs_.SetDecision([full, refusals](int64_t, FileOp op) {
    if (op != FileOp::kPreallocate || !*full) return absl::OkStatus();
    ++*refusals;
    return absl::ResourceExhaustedError("no space");
  });
  for (int f = 0; f < kFragments; ++f) {
    ASSERT_TRUE(pool.Push(f, 0, v1::SEED, CodecKind::kFp32, std::vector<float>(kLarge, 1)).ok());
    ASSERT_TRUE(pool.NextCommit().ok());
  }
  *refusals = 0;
  ASSERT_TRUE(pool.Push(1, 1, v1::OUTER, CodecKind::kFp32, std::vector<float>(kLarge, 1)).ok());
  // The work is tried again and again.
  for (int tries = 0; *refusals < 4; ++tries) {
    ASSERT_LT(tries, 200) << log_.str();
    clock_.Advance(absl::Milliseconds(200));
    absl::SleepFor(absl::Milliseconds(50));
    ASSERT_TRUE(pool.Heartbeat().ok());
  }
  *full = false;
  clock_.Advance(absl::Seconds(2));
  ASSERT_TRUE(pool.Heartbeat().ok());
  const auto commit = pool.NextCommit();
  ASSERT_TRUE(commit.ok()) << commit.status() << log_.str();
  EXPECT_EQ(commit->version(), 1);
}

TEST_F(StoreFaultsTest, AFailedSyncPublishesNothingQuarantinesTheJobAndTheNextStartGoesOn) {
  Begin();
  if (HasFatalFailure()) return;
  const auto other = Submit(Spec("other"));
  ASSERT_TRUE(other.ok());
  fs_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kSync ? absl::DataLossError("the disk is gone") : absl::OkStatus();
  });
  for (int i = 0; i < 2; ++i) {
    // Refused if a snapshot met the fault before the round did.
    (void)pool(i).Push(1, 1, v1::OUTER, CodecKind::kFp32, Ramp(static_cast<float>(i)));
  }
  const auto quarantined = Await("job", v1::QUARANTINED);
  ASSERT_TRUE(quarantined.ok()) << quarantined.status();
  EXPECT_NE(quarantined->error().message().find("the disk is gone"), std::string::npos);
  // No commit was published. The stream ends with the job.
  const auto event = pool(0).NextEvent();
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_NE(event->ended().reason().find("QUARANTINED"), std::string::npos);
  EXPECT_FALSE(fatal_.HasBeenNotified());
  // Another job gets its pools.
  EXPECT_TRUE(pool(0).AwaitAssignment(other->job().id()).ok());
  server_.reset();
  fs_.SetDecision(nullptr);
  Start();
  v1::CancelJobRequest cancel;
  cancel.set_job("other");
  v1::CancelJobResponse cancelled;
  ASSERT_TRUE(jobs_->CancelJob(Context().get(), cancel, &cancelled).ok());
  members_.clear();
  for (const char* name : {"site-a", "site-b"})
    members_.push_back(std::make_unique<HandMember>(address(), name, "fedcba9876543210"));
  clock_.Advance(absl::Seconds(11));
  for (auto& member : members_) ASSERT_TRUE(member->pool.Join().ok());
  for (auto& member : members_) {
    ASSERT_TRUE(member->pool.AwaitAssignment(id_).ok());
    const auto plan = member->pool.OpenPlan(id_);
    ASSERT_TRUE(plan.ok()) << plan.status();
    // The record of the round may have reached the disk, but no pool was told.
    EXPECT_GE(plan->fragments(1).version(), 0);
    PullWhole(*member);
  }
  const auto job = Get("job");
  ASSERT_TRUE(job.ok());
  if (job->fragments(1).rounds_committed() == 0) Round(members_, 1, 1, v1::OUTER);
  Round(members_, 0, 1, v1::OUTER);
  Complete(1);
}

// A disk on which writes of files with a part of a path stand still for a while.
class HangingFileSystem : public DelegatingFileSystem {
 public:
  HangingFileSystem(FileSystem* base, std::string part)
      : DelegatingFileSystem(base), base_(base), part_(std::move(part)) {}
  ~HangingFileSystem() override { SetHangs(false); }

  void SetHangs(bool hangs) {
    absl::MutexLock lock(&mutex_);
    goes_on_ = !hangs;
  }
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override {
    return Hanging(base_->Open(path), path);
  }
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    return Hanging(base_->Create(path), path);
  }

 private:
  class HangingFile : public DelegatingFile {
   public:
    HangingFile(std::unique_ptr<File> base, HangingFileSystem* of)
        : DelegatingFile(std::move(base)), of_(of) {}
    absl::Status WriteAt(int64_t offset, absl::string_view data) override {
      {
        absl::MutexLock lock(&of_->mutex_);
        of_->mutex_.Await(absl::Condition(&of_->goes_on_));
      }
      return DelegatingFile::WriteAt(offset, data);
    }

   private:
    HangingFileSystem* const of_;
  };
  absl::StatusOr<std::unique_ptr<File>> Hanging(absl::StatusOr<std::unique_ptr<File>> file,
                                                const std::string& path) {
    if (!file.ok() || !absl::StrContains(path, part_)) return file;
    return std::make_unique<HangingFile>(*std::move(file), this);
  }

  FileSystem* const base_;
  const std::string part_;
  absl::Mutex mutex_;
  bool goes_on_ ABSL_GUARDED_BY(mutex_) = true;
};

class HangingDiskTest : public PagesFixture {
 protected:
  coordinator::CoordinatorServerOptions Options() override {
    coordinator::CoordinatorServerOptions options = PagesFixture::Options();
    options.fs = &fs_;
    options.slow = absl::Milliseconds(100);
    return options;
  }
  void TearDown() override {
    fs_.SetHangs(false);
    server_.reset();
  }
  std::string Readiness() { return Get("/readyz"); }

  const std::unique_ptr<FileSystem> disk_ = MakePosixFileSystem();
  HangingFileSystem fs_{disk_.get(), "/log/"};
};

TEST_F(HangingDiskTest, AJobThatWaitsForItNamesTheFileAndBlamesNoPool) {
  Members members = MakeMembers({"site-a", "site-b"});
  SubmitAndBegin(Spec("job"), members);
  if (HasFatalFailure()) return;
  fs_.SetHangs(true);
  std::thread push(
      [&] { EXPECT_TRUE(members[0]->pool.Push(1, 1, v1::OUTER, CodecKind::kFp32, Ramp(1)).ok()); });
  std::string waiting, ready;
  for (int tries = 0; tries < 1000; ++tries) {
    const auto job = CoordinatorFixture::Get("job");
    if (job.ok()) waiting = job->waiting_for();
    ready = Readiness();
    if (absl::StrContains(waiting, "/log/") && absl::StrContains(ready, "/log/")) break;
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_TRUE(absl::StartsWith(waiting, "the coordinator's disk: write of ")) << waiting;
  EXPECT_TRUE(absl::StrContains(waiting, "/log/")) << waiting;
  EXPECT_TRUE(absl::StrContains(ready, "503") && absl::StrContains(ready, "/log/")) << ready;
  fs_.SetHangs(false);
  push.join();
  for (int tries = 0; tries < 1000 && !absl::StrContains(Readiness(), "200 OK"); ++tries)
    absl::SleepFor(absl::Milliseconds(20));
  EXPECT_TRUE(absl::StrContains(Readiness(), "200 OK")) << Readiness();
}

}  // namespace
}  // namespace longhaul
