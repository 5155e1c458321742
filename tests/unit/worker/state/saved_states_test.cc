#include "worker/state/saved_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

TEST(StateFileNameTest, IsReadAsItIsWrittenAndNotOtherwise) {
  const StateFileName name{1200, 3, 8};
  EXPECT_EQ(name.Text(), "step-000000001200.rank-3-of-8.safetensors");
  EXPECT_EQ(StateFileName::Parse(name.Text())->step, 1200);
  EXPECT_TRUE(IsStateFile(name.Text() + ".tmp"));
  for (const char* other :
       {"", "step-1200.rank-3-of-8.safetensors", "model.safetensors",
        "step-000000001200.rank-3-of-8.safetensors2", "step-000000001200.rank--3-of-8.safetensors",
        "step-99999999999999999999.rank-3-of-8.safetensors"})
    EXPECT_FALSE(IsStateFile(other)) << other;
}

TEST(JobStateFolderTest, NamesMakeNoPathOfTheirOwn) {
  EXPECT_EQ(JobStateFolder("/state", "site-a", "../../etc"), "/state/site-a/______etc");
  EXPECT_EQ(PoolStateFolder("/state", ""), "/state/_");
}

TEST(UnwrittenJobsTest, OnlyTimeBetweenItsLooksCounts) {
  TempDir dir;
  const auto fs = MakePosixFileSystem();
  const auto write = [&](const std::string& job, const std::string& name) {
    std::filesystem::create_directories(JoinPath(dir.path(), job));
    const std::string path = JoinPath(JoinPath(dir.path(), job), name);
    std::ofstream(path) << "bytes";
    // As of a clock that was set back since, or forward.
    std::filesystem::last_write_time(path,
                                     std::filesystem::file_time_type::clock::now() +
                                         std::chrono::hours(24 * 90 * (job == "ahead" ? 1 : -1)));
  };
  for (const char* job : {"ahead", "long-ago", "written"})
    write(job, StateFileName{7, 0, 1}.Text());
  write("foreign", "photo.jpg");
  std::filesystem::create_directories(JoinPath(dir.path(), "empty"));
  UnwrittenJobs unwritten(absl::Hours(2));
  const auto look = [&](int hour) {
    return unwritten.Look(*fs, dir.path(), KeptJobs(*fs, dir.path()),
                          absl::UnixEpoch() + absl::Hours(hour));
  };
  EXPECT_THAT(look(1), IsEmpty());
  EXPECT_THAT(look(2), IsEmpty());
  std::ofstream(JoinPath(JoinPath(dir.path(), "written"), StateFileName{8, 0, 1}.Text())) << "more";
  EXPECT_THAT(look(3), UnorderedElementsAre("ahead", "long-ago"));
  EXPECT_THAT(look(4), UnorderedElementsAre("ahead", "long-ago"));
  EXPECT_THAT(look(5), UnorderedElementsAre("ahead", "long-ago", "written"));
  // One that is removed and made again begins anew.
  ASSERT_TRUE(RemoveKeptJob(*fs, dir.path(), "ahead").ok());
  EXPECT_THAT(look(6), UnorderedElementsAre("long-ago", "written"));
  write("ahead", StateFileName{7, 0, 1}.Text());
  EXPECT_THAT(look(7), UnorderedElementsAre("long-ago", "written"));
}

TEST(UnwrittenJobsTest, AStartOfTheWorkerGoesOnWhereTheOneBeforeStopped) {
  TempDir dir;
  const auto fs = MakePosixFileSystem();
  const auto write = [&](const std::string& job, int step) {
    std::filesystem::create_directories(JoinPath(dir.path(), job));
    std::ofstream(JoinPath(JoinPath(dir.path(), job), StateFileName{step, 0, 1}.Text())) << "bytes";
  };
  write("left", 7);
  write("left too", 7);
  write("written", 7);
  // Looks of one start, at these hours of its own time, which begins anew with each.
  const auto start = [&](const std::vector<int>& hours) {
    UnwrittenJobs unwritten(absl::Hours(5));
    std::vector<std::string> found;
    for (const int hour : hours) {
      found = unwritten.Look(*fs, dir.path(), KeptJobs(*fs, dir.path()),
                             absl::UnixEpoch() + absl::Hours(hour));
    }
    return found;
  };
  EXPECT_THAT(start({100, 102}), IsEmpty());
  write("written", 8);
  EXPECT_THAT(start({7, 9}), IsEmpty());
  // Time between two starts does not count.
  EXPECT_THAT(start({50}), IsEmpty());
  EXPECT_THAT(start({3, 4}), UnorderedElementsAre("left", "left too"));
  // What is no age makes nothing old, and does no harm.
  std::ofstream(JoinPath(dir.path(), "unwritten-jobs")) << "999999 7 left\n-1 x\n\n9 9\nnan\n";
  EXPECT_THAT(start({1, 2}), IsEmpty());
  EXPECT_THAT(start({1, 5}), UnorderedElementsAre("left", "left too", "written"));
  // It leaves nothing once nobody misses a job.
  for (const char* job : {"left", "left too", "written"})
    std::filesystem::remove_all(JoinPath(dir.path(), job));
  EXPECT_THAT(start({1}), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

class SavedStatesTest : public testing::Test {
 protected:
  void Write(int64_t step, uint64_t life, int rank, int ranks,
             const std::vector<InnerStatePart>& parts, double updates = 5) {
    const StateTag tag{.owner = owner_,
                       .life = life,
                       .step = step,
                       .rank = rank,
                       .ranks = ranks,
                       .phase = {{"updates", updates}}};
    ASSERT_TRUE(WriteStateFile(fs_.get(),
                               JoinPath(dir_.path(), StateFileName{step, rank, ranks}.Text()), tag,
                               parts)
                    .ok());
  }
  SavedStates Scan(int rank = 0, int ranks = 1) {
    return SavedStates::Scan(
        {.fs = fs_.get(), .folder = dir_.path(), .owner = owner_, .rank = rank, .ranks = ranks});
  }
  static InnerStatePart Part(InnerStateKind kind, int64_t first, std::vector<float> values) {
    return {{kind, 0, first, static_cast<int64_t>(values.size())}, values};
  }

  TempDir dir_;
  const std::unique_ptr<FileSystem> fs_ = MakePosixFileSystem();
  const StateOwner owner_{.job = "j", .pool = "p", .spec = "s", .layout = "l"};
};

TEST_F(SavedStatesTest, SlotsArePutTogetherFromSeveralFiles) {
  constexpr InnerStateKind kKind = InnerStateKind::kMoment;
  Write(3, 1, 0, 2, {Part(kKind, 0, {0, 1, 2})});
  Write(3, 1, 1, 2, {Part(kKind, 3, {3, 4}), Part(kKind, 7, {7})});
  const SavedStates saved = Scan();
  EXPECT_THAT(saved.saves(), ElementsAre(SaveId{3, 1}));
  const InnerStateSlot across{kKind, 0, 1, 4};
  const auto state = saved.Load({3, 1}, {across});
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(state->parts[0].values, ElementsAre(1, 2, 3, 4));
  // A gap, another unit, another save.
  for (const auto& [id, slot] : {std::pair(SaveId{3, 1}, InnerStateSlot{kKind, 0, 4, 4}),
                                 {SaveId{3, 1}, InnerStateSlot{kKind, 1, 0, 1}},
                                 {SaveId{3, 2}, across}}) {
    EXPECT_FALSE(saved.Covers(id, {slot}));
    EXPECT_TRUE(absl::IsNotFound(saved.Load(id, {slot}).status()));
  }
}

TEST_F(SavedStatesTest, WhatIsOptionalMayBeMissingAndWhatIsOfARankIsItsOwn) {
  Write(3, 1, 0, 2,
        {Part(InnerStateKind::kMoment, 0, {1}), Part(InnerStateKind::kWorkerError, 0, {5})});
  Write(3, 1, 1, 2, {Part(InnerStateKind::kWorkerError, 0, {6})});
  const std::vector<InnerStateSlot> slots = {{InnerStateKind::kMoment, 0, 0, 1},
                                             {InnerStateKind::kWorkerError, 0, 0, 1},
                                             {InnerStateKind::kUplinkError, 0, 0, 1}};
  EXPECT_THAT(Scan(0, 1).Load({3, 1}, slots)->parts, SizeIs(1));
  const auto second = Scan(1, 2).Load({3, 1}, slots);
  ASSERT_THAT(second->parts, SizeIs(2));
  EXPECT_EQ(second->parts[1].values[0], 6);
}

TEST_F(SavedStatesTest, FilesThatDoNotAgreeAreNoSave) {
  Write(3, 1, 0, 2, {Part(InnerStateKind::kMoment, 0, {1})}, 5);
  Write(3, 1, 1, 2, {Part(InnerStateKind::kMoment, 1, {1})}, 6);
  EXPECT_THAT(Scan().saves(), IsEmpty());
  EXPECT_THAT(Scan().PhaseOf({3, 1}), IsEmpty());
  // The newest first, lives apart.
  Write(5, 2, 0, 2, {});
  Write(5, 1, 1, 2, {});
  Write(4, 9, 0, 2, {});
  EXPECT_THAT(Scan().saves(), ElementsAre(SaveId{5, 2}, SaveId{5, 1}, SaveId{4, 9}));
}

TEST_F(SavedStatesTest, ARenamedFileIsNotTaken) {
  Write(3, 1, 0, 1, {});
  std::filesystem::rename(JoinPath(dir_.path(), StateFileName{3, 0, 1}.Text()),
                          JoinPath(dir_.path(), StateFileName{9, 0, 1}.Text()));
  const SavedStates saved = Scan();
  EXPECT_THAT(saved.saves(), IsEmpty());
  EXPECT_THAT(saved.problems(), ElementsAre(HasSubstr("was renamed")));
}

}  // namespace
}  // namespace longhaul
