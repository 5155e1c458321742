// The store on the system's own files: real folder names, locks and preallocation.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "common/io/posix_filesystem.h"
#include "coordinator/store/check.h"
#include "coordinator/store/data_folder.h"
#include "coordinator/store/fatal.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/sqlite_database.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "longhaul/v1/job.pb.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

// While it exists, this process cannot open a file.
class NoFileLeft {
 public:
  NoFileLeft() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = open("/dev/null", O_RDONLY);
    EXPECT_GE(next, 0);
    close(next);
    rlimit now = before_;
    now.rlim_cur = next;
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~NoFileLeft() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

class RealFilesTest : public testing::Test {
 protected:
  TempDir data_;
  const std::string dir_ = JobFolder(data_.path(), "id1");
  const std::unique_ptr<FileSystem> fs_ = MakePosixFileSystem();
};

TEST_F(RealFilesTest, AJobLivesThroughItsLife) {
  {
    const auto meta = *MetaStore::Open(DatabasePath(data_.path()));
    const MetaRecord job = NewJob{{.id = "id1", .name = "alpha", .state = JobState::kRunning}};
    ASSERT_TRUE(meta->Commit({&job, 1}).ok());
    auto store = JobStore::Create(fs_.get(), dir_, ManifestWith(SmallOptions()));
    ASSERT_TRUE(store.ok()) << store.status();
    for (int i = 0; i < 12; ++i) {
      for (const int fragment : {0, 1}) {
        const RoundKind kind = i == 0 ? RoundKind::kSeed : RoundKind::kOuter;
        const int64_t elements = (*store)->options().fragment_elements[fragment];
        ASSERT_TRUE(Round(**store, fragment, kind, {NoiseOf(elements, i)}).ok());
        ASSERT_TRUE((*store)->MaybeSnapshot().ok());
      }
    }
    v1::CheckpointManifest manifest;
    ASSERT_TRUE((*store)->WriteCheckpoint(manifest).ok());
  }
  EXPECT_THAT(CheckDataFolder(*fs_, data_.path()).findings, testing::IsEmpty());
  auto store = JobStore::Recover(fs_.get(), dir_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(*(*store)->Version(1), 11);
  ASSERT_TRUE((*store)->Retire().ok());
  for (const auto& file : std::filesystem::directory_iterator(LogFolder(dir_))) {
    EXPECT_LT(file.file_size(), 64u << 10) << "space that was given back";
  }
  store->reset();
  EXPECT_THAT(CheckDataFolder(*fs_, data_.path()).findings, testing::IsEmpty());
  EXPECT_TRUE(JobStore::Recover(fs_.get(), dir_).ok());
}

TEST_F(RealFilesTest, AFolderThatIsAFileIsAnErrorOfThatJob) {
  ASSERT_TRUE(JobStore::Create(fs_.get(), dir_, ManifestWith(SmallOptions())).ok());
  std::filesystem::remove_all(LogFolder(dir_));
  ASSERT_TRUE(fs_->Create(LogFolder(dir_)).ok());
  const absl::Status refused = JobStore::Recover(fs_.get(), dir_).status();
  EXPECT_FALSE(refused.ok());
  EXPECT_FALSE(absl::IsNotFound(refused));
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr(LogFolder(dir_)));
}

TEST_F(RealFilesTest, AStoreWithoutAFileDescriptorGoesOnWhenThereIsOne) {
  const auto store = JobStore::Create(fs_.get(), dir_, ManifestWith(SmallOptions()));
  ASSERT_TRUE(store.ok()) << store.status();
  const std::vector<float> values = NoiseOf(1000, 1);
  ASSERT_TRUE(Round(**store, 0, RoundKind::kSeed, {values}).ok());
  {
    const NoFileLeft none;
    EXPECT_TRUE(absl::IsUnavailable(fs_->Create(JoinPath(dir_, "new")).status()));
    EXPECT_TRUE(absl::IsUnavailable(fs_->List(dir_).status()));
    EXPECT_TRUE(absl::IsUnavailable(fs_->SyncDir(dir_)));
    // Until the log needs another file.
    const PartInfo part{.round = {0, 1, RoundKind::kOuter}, .pool = "pool0"};
    absl::Status pushed;
    for (int i = 0; i < 100 && pushed.ok(); ++i) pushed = Push(**store, part, values).status();
    EXPECT_TRUE(absl::IsUnavailable(pushed)) << pushed;
    EXPECT_FALSE(IsFatal(pushed));
  }
  EXPECT_TRUE(Round(**store, 0, RoundKind::kOuter, {values}).ok());
}

TEST_F(RealFilesTest, TellsThatACoordinatorRuns) {
  const std::string path = DatabasePath(data_.path());
  EXPECT_TRUE(absl::IsNotFound(CheckNotOpen(path)));
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto meta = MetaStore::Open(path);
    if (meta.ok()) (void)!write(ready[1], "x", 1);
    close(ready[1]);
    pause();
    _exit(0);
  }
  close(ready[1]);
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(absl::IsUnavailable(CheckNotOpen(path)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  EXPECT_TRUE(CheckNotOpen(path).ok());
  EXPECT_TRUE(MetaStore::Open(path).ok());
}

}  // namespace
}  // namespace longhaul
