// Crashes of JobStore at every operation on the file system, in which unsynced data is dropped,
// kept or torn; disks that become full; bytes that change.
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/io/file_util.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/fatal.h"
#include "coordinator/store/job_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

constexpr char kDir[] = "j";
constexpr int64_t kLastVersion = 8;

JobStoreOptions Options() {
  JobStoreOptions options = SmallOptions();
  options.fragment_elements = {600, 256};
  options.down.kind = CodecKind::kE3m0;
  options.outer_lr = 0.7;
  options.outer_momentum = 0.9;
  options.log_file_bytes = 48 << 10;
  return options;
}

RoundKind KindOf(int64_t version) {
  if (version == 0) return RoundKind::kSeed;
  if (version == 5) return RoundKind::kSkipped;
  return version == kLastVersion ? RoundKind::kFinal : RoundKind::kOuter;
}

// Everything in which versions differ: parameters, momentum (through later versions), downlink.
struct Outcome {
  Digest128 digest, downlink;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};
// By fragment and version.
using History = std::map<std::pair<int, int64_t>, Outcome>;

Outcome Observe(const JobStore& store, int fragment, int64_t version) {
  Outcome outcome;
  const auto outer = store.ReadOuter(fragment, version, AllBlocks(store, fragment));
  EXPECT_TRUE(outer.ok()) << outer.status();
  outcome.digest = DigestOf(BytesOf(FloatsOf(*outer)));
  EXPECT_EQ(outcome.digest, store.LastCommit(fragment)->digest);
  const auto down = store.ReadDownlink(fragment, version, AllBlocks(store, fragment));
  if (KindOf(version) == RoundKind::kSeed || KindOf(version) == RoundKind::kSkipped) {
    EXPECT_TRUE(absl::IsFailedPrecondition(down.status())) << down.status();
  } else {
    EXPECT_TRUE(down.ok()) << down.status();
    outcome.downlink =
        DigestOf({reinterpret_cast<const char*>(down->payload.data()), down->payload.size()});
  }
  return outcome;
}

absl::StatusOr<CommitRecord> MakeVersion(JobStore& store, int fragment, int64_t version) {
  const int64_t elements = store.options().fragment_elements[fragment];
  std::vector<std::vector<float>> pools;
  const int count = KindOf(version) == RoundKind::kSkipped ? 0 : version == 0 ? 1 : 2;
  for (int pool = 0; pool < count; ++pool) {
    pools.push_back(NoiseOf(elements, version * 10 + fragment * 3 + pool));
  }
  const CodecKind codec = version == 0 ? CodecKind::kFp32 : CodecKind::kE3m0;
  return Round(store, fragment, KindOf(version), pools, codec);
}

// Continues the job from its present version, and reports each acknowledged commit. Stops at an
// error.
absl::Status Work(JobStore& store, History* acknowledged) {
  for (int64_t version = 0; version <= kLastVersion; ++version) {
    for (const int fragment : {0, 1}) {
      LH_ASSIGN_OR_RETURN(const int64_t have, store.Version(fragment));
      if (have >= version) continue;
      LH_RETURN_IF_ERROR(MakeVersion(store, fragment, version).status());
      (*acknowledged)[{fragment, version}] = Observe(store, fragment, version);
      LH_RETURN_IF_ERROR(store.MaybeSnapshot());
    }
    if (version % 4 != 0) continue;
    v1::CheckpointManifest manifest;
    manifest.set_step(version);
    LH_RETURN_IF_ERROR(store.WriteCheckpoint(manifest).status());
  }
  return store.Retire();
}

int64_t NewestOf(const History& history, int fragment) {
  int64_t newest = -1;
  for (const auto& [key, outcome] : history) {
    if (key.first == fragment) newest = std::max(newest, key.second);
  }
  return newest;
}

absl::StatusOr<std::unique_ptr<JobStore>> OpenOrCreate(FileSystem* fs) {
  auto store = JobStore::Recover(fs, kDir);
  if (absl::IsNotFound(store.status())) return JobStore::Create(fs, kDir, ManifestWith(Options()));
  return store;
}

class JobStoreCrashTest : public testing::Test {
 protected:
  JobStoreCrashTest() {
    MemoryFileSystem memory;
    FailingFileSystem fs(&memory);
    auto store = *JobStore::Create(&fs, kDir, ManifestWith(Options()));
    EXPECT_TRUE(Work(*store, &expected_).ok());
    operations_ = fs.operations();
    EXPECT_EQ(NewestOf(expected_, 0), kLastVersion);
  }

  // Checks what `fs` holds after a crash: every acknowledged version is complete, and the job can
  // be finished from there with the same result.
  void CheckRecovery(FileSystem* fs, const History& acknowledged) {
    auto store = OpenOrCreate(fs);
    ASSERT_TRUE(store.ok()) << store.status();
    for (const int fragment : {0, 1}) {
      const int64_t version = *(*store)->Version(fragment);
      const int64_t newest = NewestOf(acknowledged, fragment);
      ASSERT_GE(version, newest) << "an acknowledged commit is gone";
      ASSERT_LE(version, newest + 1) << "a commit from nowhere";
      if (version >= 0) {
        ASSERT_EQ(Observe(**store, fragment, version), (expected_[{fragment, version}]));
      }
    }
    const auto checkpoints = ListCheckpoints(*fs, kDir);
    ASSERT_TRUE(checkpoints.ok());
    for (const auto& checkpoint : *checkpoints) ASSERT_EQ(checkpoint.fragments_size(), 2);
    History rest;
    ASSERT_TRUE(Work(**store, &rest).ok());
    for (const auto& [key, outcome] : rest) ASSERT_EQ(outcome, expected_[key]);
    store->reset();
    auto again = JobStore::Recover(fs, kDir);
    ASSERT_TRUE(again.ok()) << again.status();
    for (const int fragment : {0, 1}) {
      ASSERT_EQ(Observe(**again, fragment, kLastVersion), (expected_[{fragment, kLastVersion}]));
    }
  }

  History expected_;
  int64_t operations_ = 0;
};

TEST_F(JobStoreCrashTest, SurvivesACrashAtEveryOperation) {
  for (int64_t crash = 0; crash <= operations_; ++crash) {
    MemoryFileSystem memory;
    FailingFileSystem fs(&memory);
    fs.FailFrom(crash, absl::CancelledError("crashed"));
    History acknowledged;
    if (auto store = JobStore::Create(&fs, kDir, ManifestWith(Options())); store.ok()) {
      (void)Work(**store, &acknowledged);
    }
    const auto check = [&](UnsyncedFate fate, uint64_t seed) {
      SCOPED_TRACE(absl::StrCat("crash at operation ", crash, ", fate ", static_cast<int>(fate),
                                ", seed ", seed));
      CheckRecovery(memory.CrashCopy(fate, seed).get(), acknowledged);
    };
    check(UnsyncedFate::kDropped, 0);
    check(UnsyncedFate::kKept, 0);
    for (uint64_t seed = 0; seed < 3; ++seed) check(UnsyncedFate::kRandom, crash * 3 + seed);
    ASSERT_FALSE(HasFatalFailure());
  }
}

// A crash during the recovery from a crash.
TEST_F(JobStoreCrashTest, SurvivesACrashDuringRecovery) {
  MemoryFileSystem memory;
  FailingFileSystem fs(&memory);
  fs.FailFrom(operations_ * 2 / 3, absl::CancelledError("crashed"));
  History acknowledged;
  (void)Work(**JobStore::Create(&fs, kDir, ManifestWith(Options())), &acknowledged);
  const auto torn = memory.CrashCopy(UnsyncedFate::kRandom, 5);
  for (int64_t crash = 0;; ++crash) {
    const auto first = torn->CrashCopy(UnsyncedFate::kKept);
    FailingFileSystem failing(first.get());
    failing.FailFrom(crash, absl::CancelledError("crashed"));
    if (JobStore::Recover(&failing, kDir).ok()) break;
    for (const UnsyncedFate fate : {UnsyncedFate::kDropped, UnsyncedFate::kRandom}) {
      SCOPED_TRACE(absl::StrCat("crash at operation ", crash));
      CheckRecovery(first->CrashCopy(fate, crash).get(), acknowledged);
    }
  }
}

// Every operation meets a full disk once. Calls are repeated, as a coordinator would do. Nothing
// acknowledged is lost, and after a final error (a sync) recovery continues.
TEST_F(JobStoreCrashTest, AFullDiskLosesNothing) {
  for (int64_t full = 0; full < operations_; ++full) {
    SCOPED_TRACE(absl::StrCat("disk full at operation ", full));
    MemoryFileSystem memory;
    FailingFileSystem fs(&memory);
    fs.FailOnce(full, absl::ResourceExhaustedError("no space"));
    auto store = OpenOrCreate(&fs);
    if (!store.ok()) {
      ASSERT_TRUE(absl::IsResourceExhausted(store.status())) << store.status();
      store = OpenOrCreate(&fs);
      ASSERT_TRUE(store.ok()) << store.status();
    }
    History acknowledged;
    absl::Status worked = Work(**store, &acknowledged);
    if (IsFatal(worked)) {
      store->reset();
      CheckRecovery(memory.CrashCopy(UnsyncedFate::kDropped).get(), acknowledged);
      continue;
    }
    if (!worked.ok()) {
      ASSERT_TRUE(absl::IsResourceExhausted(worked)) << worked;
      worked = Work(**store, &acknowledged);
    }
    ASSERT_TRUE(worked.ok()) << worked;
    for (const auto& [key, outcome] : acknowledged) ASSERT_EQ(outcome, expected_[key]);
    store->reset();
    CheckRecovery(memory.CrashCopy(UnsyncedFate::kDropped).get(), acknowledged);
    ASSERT_FALSE(HasFatalFailure());
  }
}

// A changed byte is found, or has no effect. Recovery never returns fewer or other versions without
// an error.
TEST_F(JobStoreCrashTest, RefusesChangedBytesOfTheLog) {
  MemoryFileSystem memory;
  JobStoreOptions options = Options();
  // So the whole log is needed.
  options.snapshot_every = 100;
  History acknowledged;
  {
    auto store = *JobStore::Create(&memory, kDir, ManifestWith(options));
    ASSERT_TRUE(Work(*store, &acknowledged).ok());
    // Without a later frame it would not be known that the last commit was durable.
    const PartInfo info = {{0, kLastVersion + 1, RoundKind::kOuter}, "late", CodecKind::kFp32, {}};
    ASSERT_TRUE(Push(*store, info, NoiseOf(600, 1)).ok());
  }
  int refused = 0, accepted = 0;
  const std::string folder = absl::StrCat(kDir, "/log");
  const std::vector<std::string> names = *memory.List(folder);
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    const int64_t size = *(*memory.Open(path))->Size();
    for (int64_t offset = 0; offset < size; offset += 61) {
      const auto copy = memory.CrashCopy(UnsyncedFate::kKept);
      auto file = *copy->Open(path);
      char byte = 0;
      ASSERT_TRUE(file->ReadExactly(offset, {&byte, 1}).ok());
      byte ^= 0x10;
      ASSERT_TRUE(file->WriteAt(offset, {&byte, 1}).ok());
      const auto store = JobStore::Recover(copy.get(), kDir);
      if (!store.ok()) {
        ASSERT_TRUE(absl::IsDataLoss(store.status())) << store.status();
        EXPECT_THAT(std::string(store.status().message()),
                    testing::AllOf(testing::HasSubstr(path), testing::HasSubstr("at byte")));
        ++refused;
        continue;
      }
      for (const int fragment : {0, 1}) {
        ASSERT_EQ(*(*store)->Version(fragment), kLastVersion) << path << " at " << offset;
        ASSERT_EQ(Observe(**store, fragment, kLastVersion), (expected_[{fragment, kLastVersion}]));
      }
      ++accepted;
    }
  }
  EXPECT_GT(refused, 100);
  // Bytes of the padding may change.
  EXPECT_GT(accepted, 100);
}

TEST_F(JobStoreCrashTest, ADamagedSnapshotFallsBackToTheOneBefore) {
  MemoryFileSystem memory;
  History acknowledged;
  ASSERT_TRUE(Work(**JobStore::Create(&memory, kDir, ManifestWith(Options())), &acknowledged).ok());
  const std::vector<std::string> names = *memory.List(absl::StrCat(kDir, "/snap"));
  for (const std::string& name : names) {
    for (const int64_t offset : {0, 30, 5000}) {
      SCOPED_TRACE(absl::StrCat(name, " at ", offset));
      const auto copy = memory.CrashCopy(UnsyncedFate::kDropped);
      auto file = *copy->Open(absl::StrCat(kDir, "/snap/", name));
      ASSERT_TRUE(file->WriteAt(offset, "damage").ok());
      CheckRecovery(copy.get(), acknowledged);
    }
  }
}

// Damage that is visible only inside the job's folder. Each kind is refused with an error that
// names the place, ends only this job and changes nothing; or it has no effect.
class JobStoreDamageTest : public JobStoreCrashTest {
 protected:
  JobStoreDamageTest() {
    auto store = *JobStore::Create(&memory_, kDir, ManifestWith(LongLog()));
    // A job at work: the last file of the log has frames, and is not the only one.
    for (int64_t version = 0; version < kLastVersion; ++version) {
      for (const int fragment : {0, 1}) {
        EXPECT_TRUE(MakeVersion(*store, fragment, version).ok());
        EXPECT_TRUE(store->MaybeSnapshot().ok());
      }
    }
    // Without a later frame it would not be known that the last commit was durable.
    const PartInfo info = {{0, kLastVersion, RoundKind::kFinal}, "late", CodecKind::kFp32, {}};
    EXPECT_TRUE(Push(*store, info, NoiseOf(600, 1)).ok());
    logs_ = *memory_.List(kLog);
    EXPECT_GE(logs_.size(), 3u);
  }
  static JobStoreOptions LongLog() {
    JobStoreOptions options = Options();
    options.snapshot_every = 3;
    return options;
  }
  static void Truncate(FileSystem& fs, const std::string& path, int64_t size) {
    ASSERT_TRUE((*fs.Open(path))->Truncate(size).ok());
  }
  static void Spoil(FileSystem& fs, const std::string& path, int64_t offset) {
    ASSERT_TRUE((*fs.Open(path))->WriteAt(offset, "damage").ok());
  }
  static void RemoveAll(FileSystem& fs, const std::string& folder) {
    const std::vector<std::string> names = *fs.List(folder);
    for (const std::string& name : names) {
      ASSERT_TRUE(fs.Remove(JoinPath(folder, name)).ok());
    }
  }
  void ExpectRefused(FileSystem& fs, const std::string& place) {
    const auto names = *fs.List(kDir);
    const auto logs = fs.List(kLog);
    const absl::Status refused = JobStore::Recover(&fs, kDir).status();
    ASSERT_FALSE(refused.ok());
    EXPECT_FALSE(absl::IsNotFound(refused)) << "would be taken for a store that was never made";
    EXPECT_FALSE(IsFatal(refused));
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr(place));
    EXPECT_EQ(*fs.List(kDir), names);
    if (logs.ok()) {
      EXPECT_EQ(*fs.List(kLog), *logs);
    }
    // A second store is not made over it.
    EXPECT_FALSE(JobStore::Create(&fs, kDir, ManifestWith(LongLog())).ok());
  }
  void ExpectWhole(FileSystem& fs) {
    const auto store = JobStore::Recover(&fs, kDir);
    ASSERT_TRUE(store.ok()) << store.status();
    for (const int fragment : {0, 1}) EXPECT_EQ(*(*store)->Version(fragment), kLastVersion - 1);
  }
  std::unique_ptr<MemoryFileSystem> Copy() { return memory_.CrashCopy(UnsyncedFate::kKept); }

  static constexpr char kLog[] = "j/log", kSnap[] = "j/snap";
  MemoryFileSystem memory_;
  std::vector<std::string> logs_;
};

TEST_F(JobStoreDamageTest, DamageOfTheManifest) {
  auto copy = Copy();
  Spoil(*copy, "j/manifest", 20);
  ExpectRefused(*copy, "j/manifest");
  copy = Copy();
  Truncate(*copy, "j/manifest", 10);
  ExpectRefused(*copy, "j/manifest");
  copy = Copy();
  ASSERT_TRUE(copy->Remove("j/manifest").ok());
  ExpectRefused(*copy, "j/manifest is missing");
}

TEST_F(JobStoreDamageTest, DamageOfTheFolder) {
  auto copy = Copy();
  ASSERT_TRUE(copy->Remove("j/manifest").ok());
  for (const std::string folder : {kLog, kSnap, "j/checkpoints"}) {
    RemoveAll(*copy, folder);
    ASSERT_TRUE(copy->Remove(folder).ok());
  }
  ASSERT_TRUE(copy->Remove("j").ok());
  EXPECT_TRUE(absl::IsNotFound(JobStore::Recover(copy.get(), kDir).status()));
  for (const std::string folder : {kLog, kSnap}) {
    copy = Copy();
    RemoveAll(*copy, folder);
    ASSERT_TRUE(copy->Remove(folder).ok());
    ExpectRefused(*copy, folder);
    // A file in place of the folder.
    ASSERT_TRUE(copy->Create(folder).ok());
    ExpectRefused(*copy, folder);
  }
}

TEST_F(JobStoreDamageTest, DamageOfTheLogsFiles) {
  for (const std::string& name : logs_) {
    SCOPED_TRACE(name);
    const std::string path = JoinPath(kLog, name);
    for (const int64_t size : {0, 100, 4096, 5000}) {
      auto copy = Copy();
      Truncate(*copy, path, size);
      ExpectRefused(*copy, kLog);
    }
    auto copy = Copy();
    Spoil(*copy, path, 16);
    ExpectRefused(*copy, path);
    const bool spare = name == logs_.back();
    copy = Copy();
    Spoil(*copy, path, 4096 + 90);
    spare ? ExpectWhole(*copy) : ExpectRefused(*copy, path);
    copy = Copy();
    ASSERT_TRUE(copy->Remove(path).ok());
    // The first file is kept for the case that the newest snapshots are damaged.
    spare || name == logs_[0] ? ExpectWhole(*copy) : ExpectRefused(*copy, kLog);
  }
  auto copy = Copy();
  RemoveAll(*copy, kLog);
  ExpectRefused(*copy, kLog);
  copy = Copy();
  Spoil(*copy, JoinPath(kLog, logs_[0]), 0);
  ExpectRefused(*copy, logs_[0]);
  copy = Copy();
  ASSERT_TRUE((*copy->Create("j/log/segment-zzz.log"))->WriteAt(0, std::string(5000, 'g')).ok());
  ExpectRefused(*copy, "j/log/segment-zzz.log");
  copy = Copy();
  ASSERT_TRUE((*copy->Create("j/log/0000000099.log"))->WriteAt(0, std::string(5000, 'g')).ok());
  ExpectRefused(*copy, "j/log/0000000099.log");
}

TEST_F(JobStoreDamageTest, DamageOfSnapshots) {
  std::vector<std::string> names = *memory_.List(kSnap);
  // Two of each fragment.
  ASSERT_EQ(names.size(), 4u);
  auto copy = Copy();
  Spoil(*copy, JoinPath(kSnap, names[1]), 5000);
  ExpectWhole(*copy);
  for (const int64_t offset : {20, 5000}) {
    copy = Copy();
    for (const std::string& name : {names[0], names[1]}) {
      Spoil(*copy, JoinPath(kSnap, name), offset);
    }
    // The log does not go back to the first round.
    ExpectRefused(*copy, kSnap);
    EXPECT_EQ(*copy->List(kSnap), names);
  }
  copy = Copy();
  for (const std::string& name : names) Truncate(*copy, JoinPath(kSnap, name), 5000);
  ExpectRefused(*copy, kSnap);
  copy = Copy();
  RemoveAll(*copy, kSnap);
  ExpectRefused(*copy, kLog);
}

}  // namespace
}  // namespace longhaul
