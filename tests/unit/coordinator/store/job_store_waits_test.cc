// Rounds continue while files are written. Each hook runs on the writer's thread, so a lock that
// the writer held would never become free.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/io/file_util.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/delegating_filesystem.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/hook_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

// Tells of each file before it is made.
class RecordingFileSystem : public DelegatingFileSystem {
 public:
  RecordingFileSystem(FileSystem* base, std::function<void(const std::string&)> record)
      : DelegatingFileSystem(base), record_(std::move(record)) {}
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    record_(path);
    return DelegatingFileSystem::Create(path);
  }

 private:
  const std::function<void(const std::string&)> record_;
};

class JobStoreWaitsTest : public testing::Test {
 protected:
  JobStoreWaitsTest() {
    JobStoreOptions options = SmallOptions();
    options.down.kind = CodecKind::kE3m0;
    options.outer_momentum = 0.5;
    store_ = *JobStore::Create(&fs_, "j", ManifestWith(options));
    for (int i = 0; i < 5; ++i) Advance();
  }
  void AdvanceOne(int fragment) {
    const int64_t version = *store_->Version(fragment) + 1;
    const int64_t elements = store_->options().fragment_elements[fragment];
    const RoundKind kind = version == 0 ? RoundKind::kSeed : RoundKind::kOuter;
    ASSERT_TRUE(Round(*store_, fragment, kind, {NoiseOf(elements, version * 2 + fragment)}).ok());
  }
  void AdvanceAll() {
    for (const int fragment : {0, 1}) AdvanceOne(fragment);
  }
  void Advance() {
    AdvanceAll();
    ASSERT_TRUE(store_->MaybeSnapshot().ok());
  }

  MemoryFileSystem memory_;
  HookFileSystem fs_{&memory_};
  std::unique_ptr<JobStore> store_;
};

// After so many rounds the snapshots and the log that the cut needs would be removed without its
// pin.
TEST_F(JobStoreWaitsTest, ACheckpointIsOneCutWhileRoundsContinue) {
  for (const auto& cut : {std::pair(0, false), {1, false}, {20, false}, {1, true}, {20, true}}) {
    const int rounds = cut.first;
    const bool writing = cut.second;
    SCOPED_TRACE(absl::StrCat(rounds, writing ? " while a file is written" : " after the cut"));
    std::vector<std::string> expected;
    for (const int fragment : {0, 1}) {
      expected.emplace_back(BytesOf(OuterOf(*store_, fragment)));
    }
    const int64_t version = *store_->Version(0);
    // Snapshots wait while a file is written.
    fs_.OnCreate(writing ? "step-00000030.tmp/fragment-000" : "step-00000030.tmp", [&] {
      for (int i = 0; i < rounds; ++i) writing ? AdvanceAll() : Advance();
    });
    v1::CheckpointManifest manifest;
    manifest.set_step(30);
    const auto written = store_->WriteCheckpoint(manifest);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_TRUE(fs_.called());
    EXPECT_EQ(*store_->Version(1), version + rounds);
    for (const int fragment : {0, 1}) {
      EXPECT_EQ(written->fragments(fragment).version(), version);
      EXPECT_EQ(*ReadFile(memory_, JoinPath(written->path(), written->fragments(fragment).file()),
                          1 << 20),
                expected[fragment]);
    }
  }
  // The pin is gone, so the log becomes shorter again.
  for (int i = 0; i < 20; ++i) Advance();
  EXPECT_LT(memory_.List("j/log")->size(), 6u);
}

// There is memory for one copy. A disk that is slow holds up a snapshot for one fragment, not for
// the whole checkpoint.
TEST_F(JobStoreWaitsTest, ASnapshotTakesItsTurnBetweenTheFragmentsOfACheckpoint) {
  std::vector<std::string> made;
  absl::Mutex mutex;
  RecordingFileSystem recording(&memory_, [&](const std::string& path) {
    absl::MutexLock lock(&mutex);
    made.push_back(path);
  });
  HookFileSystem fs(&recording);
  JobStoreOptions options = SmallOptions();
  options.snapshot_every = 1;
  store_ = *JobStore::Create(&fs, "k", ManifestWith(options));
  AdvanceAll();
  std::jthread snapshots;
  fs.OnCreate("step-00000030.tmp/fragment-000", [&] {
    const uint64_t asked = store_->workspace().asked();
    snapshots = std::jthread([&] { EXPECT_TRUE(store_->MaybeSnapshot().ok()); });
    while (store_->workspace().asked() == asked) std::this_thread::yield();
    absl::MutexLock lock(&mutex);
    made.clear();
  });
  v1::CheckpointManifest manifest;
  manifest.set_step(30);
  ASSERT_TRUE(store_->WriteCheckpoint(manifest).ok());
  snapshots.join();
  std::vector<std::string> names;
  for (const std::string& path : made) {
    if (path.find("fragment-") != std::string::npos) names.push_back(path);
  }
  ASSERT_EQ(names.size(), 4u);
  names.resize(2);
  EXPECT_THAT(names, testing::ElementsAre("k/checkpoints/step-00000030.tmp/fragment-000.f32",
                                          "k/snap/fragment-00000-0000000000.snap.tmp"));
}

TEST_F(JobStoreWaitsTest, ASnapshotIsOneVersionWhileRoundsContinue) {
  const auto rounds = [&] { AdvanceAll(); };
  fs_.OnCreate("fragment-00000", rounds);
  while (!fs_.called()) Advance();
  const Digest128 digest = store_->LastCommit(0)->digest;
  store_.reset();
  store_ = *JobStore::Recover(&fs_, "j");
  EXPECT_EQ(store_->recovery().snapshots_rejected, 0);
  EXPECT_EQ(store_->LastCommit(0)->digest, digest);
}

TEST_F(JobStoreWaitsTest, AppendsContinueWhileALogFileIsMade) {
  Log log(&fs_, "", {.file_bytes = 64 << 10, .salt = 1}, LogStart());
  int appended = 0;
  bool hooked = false;
  while (!hooked) {
    fs_.OnCreate(LogFileName(2), [&] {
      hooked = true;
      ASSERT_TRUE(log.Append(FrameType::kPart, "meanwhile", {}).ok());
      ASSERT_TRUE(log.Sync().ok());
      ++appended;
    });
    ASSERT_TRUE(log.Append(FrameType::kPart, "x", {}).ok());
    ++appended;
  }
  EXPECT_EQ(log.next_sequence(), 1u + appended);
}

}  // namespace
}  // namespace longhaul
