#include "worker/state/state_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/state/fake_pool.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// Steps of ten seconds, of which the first shows the pace: saves are after steps 7, 13, 19 and so
// on.
constexpr absl::Duration kStepTime = absl::Seconds(10);

struct Life {
  int ranks = 1;
  uint64_t number = 1;
  int64_t start = 0, steps = 0;  // Steps after the start.
  bool drains = false;           // At the last of them.
  int64_t settles_every = 1;     // Steps.
  std::function<std::string(int rank)> folder;
  std::string spec = "spec";
  std::function<absl::Duration(int rank)> every = [](int) { return absl::Minutes(1); };
  int64_t age_max = 1000;
  double data_tokens = 1000, data_sample = 77;
  FileSystem* fs = nullptr;
  bool ends = false;  // With the job.
};

struct Lived {
  std::vector<StateReport> reports;  // By rank.
  std::string log;
};

// `check`: of a rank that has resumed.
Lived Live(const Life& life, const std::function<void(const FakeRank&)>& check = nullptr) {
  Lived result;
  result.reports.resize(life.ranks);
  std::ostringstream log;
  const Logger logger({.format = LogFormat::kText, .stream = &log});
  const auto fs = MakePosixFileSystem();
  RunFakePool(life.ranks, [&](FakeRank& replica) {
    ManualClock clock;
    StateKeeper keeper({.folder = life.folder(replica.rank()),
                        .owner = {.job = "job", .pool = "pool", .spec = life.spec},
                        .life = life.number,
                        .every = life.every(replica.rank()),
                        .age_max = life.age_max,
                        .first_of_node = replica.rank() == 0,
                        .log = logger},
                       &replica, &clock, life.fs != nullptr ? life.fs : fs.get());
    replica.set_data(life.data_tokens, life.data_sample);
    ASSERT_TRUE(keeper.Resume(life.start).ok());
    if (check) check(replica);
    for (int64_t step = life.start + 1; step <= life.start + life.steps; ++step) {
      ASSERT_TRUE(replica.Step(step).ok());
      clock.Advance(kStepTime);
      replica.set_settled(step % life.settles_every == 0);
      const bool last = life.drains && step == life.start + life.steps;
      ASSERT_TRUE(keeper.AfterStep(step, last).ok());
      keeper.Finish();  // Writing takes no time here.
    }
    result.reports[replica.rank()] = keeper.report();
    if (life.ends) keeper.Forget();
  });
  result.log = log.str();
  return result;
}

class StateKeeperTest : public testing::Test {
 protected:
  std::string Job(const std::string& folder = "") const {
    return JobStateFolder(folder.empty() ? dir_.path() : folder, "pool", "job");
  }
  std::vector<std::string> Files() const {
    const auto names = MakePosixFileSystem()->List(Job());
    return names.ok() ? *names : std::vector<std::string>();
  }
  std::string Path(int64_t step, int rank, int ranks) const {
    return JoinPath(Job(), StateFileName{step, rank, ranks}.Text());
  }
  // Inverts a byte, counted from the end if negative.
  static void Damage(const std::string& path, int64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at, at < 0 ? std::ios::end : std::ios::beg);
    const char byte = static_cast<char>(~file.get());
    file.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
    file.put(byte);
    ASSERT_TRUE(file.good()) << path;
  }

  TempDir dir_;
  std::function<std::string(int)> here_ = [this](int) { return dir_.path(); };
};

TEST_F(StateKeeperTest, RanksThatDifferAreNotSaved) {
  Live({.ranks = 2, .steps = 20, .settles_every = 4, .folder = here_});
  Live({.ranks = 2, .number = 2, .start = 20, .folder = here_},
       [](const FakeRank& rank) { rank.ExpectPut(20); });
}

TEST_F(StateKeeperTest, ANewLifeTakesUpTheNewestSave) {
  const Lived first = Live({.ranks = 2, .steps = 20, .folder = here_});
  EXPECT_THAT(first.log, HasSubstr("keeps its inner state in"));
  // That all ranks have the last one is not known yet.
  EXPECT_EQ(first.reports[1].saved_step, 13);
  EXPECT_THAT(Files(), SizeIs(4));
  const Lived second = Live({.ranks = 2, .number = 2, .start = 22, .folder = here_},
                            [](const FakeRank& rank) { rank.ExpectPut(19); });
  EXPECT_EQ(second.reports[0], (StateReport{.taken_up_step = 19, .saved_step = 19}));
  EXPECT_THAT(
      second.log,
      HasSubstr("resumes from its inner state of step 19 and starts after step 22 (updates 19)"));
}

TEST_F(StateKeeperTest, ADrainSavesTheLastStep) {
  Live({.ranks = 2, .steps = 15, .drains = true, .folder = here_});
  Live({.ranks = 2, .number = 2, .start = 15, .folder = here_},
       [](const FakeRank& rank) { rank.ExpectPut(15); });
}

// No step follows, so that it changes nothing of what is trained.
TEST_F(StateKeeperTest, RanksThatDifferAtADrainAreSettledAndSaved) {
  Live({.ranks = 2, .steps = 18, .drains = true, .settles_every = 4, .folder = here_});
  Live({.ranks = 2, .number = 2, .start = 18, .folder = here_},
       [](const FakeRank& rank) { rank.ExpectPut(18); });
}

TEST_F(StateKeeperTest, SavedAloneItCountsIfAllRanksDid) {
  const auto fs = MakePosixFileSystem();
  for (const int ranks_that_save : {2, 1}) {
    std::filesystem::remove_all(Job());
    RunFakePool(2, [&](FakeRank& replica) {
      ManualClock clock;
      StateKeeper keeper(
          {.folder = dir_.path(), .owner = {.job = "job", .pool = "pool", .spec = "spec"}},
          &replica, &clock, fs.get());
      ASSERT_TRUE(keeper.Resume(3).ok());
      keeper.SaveAlone(3);  // Nothing was trained.
      ASSERT_TRUE(replica.Step(5).ok());
      if (replica.rank() < ranks_that_save) keeper.SaveAlone(5);
    });
    EXPECT_THAT(Files(), SizeIs(ranks_that_save));
    Live({.ranks = 2, .number = 2, .start = 6, .folder = here_}, [&](const FakeRank& rank) {
      if (ranks_that_save == 2) return rank.ExpectPut(5);
      EXPECT_TRUE(rank.began_at_zero());
    });
  }
}

TEST_F(StateKeeperTest, AnyNumberOfRanksPutsItTogether) {
  for (const int before : {1, 2, 3, 5}) {
    for (const int after : {1, 2, 4}) {
      std::filesystem::remove_all(Job());
      Live({.ranks = before, .steps = 10, .folder = here_});
      const Lived second =
          Live({.ranks = after, .number = 2, .start = 12, .steps = 40, .folder = here_},
               [&](const FakeRank& rank) { rank.ExpectPut(7, before == after); });
      EXPECT_EQ(second.reports[0].losses, 0);
      // Nothing of the first is left, once all ranks have a save of their own.
      EXPECT_THAT(Files(), SizeIs(2 * after));
      for (const std::string& name : Files()) EXPECT_EQ(StateFileName::Parse(name)->ranks, after);
    }
  }
}

TEST_F(StateKeeperTest, AJobsFirstStepTakesNothingUp) {
  Live({.steps = 10, .folder = here_});
  const Lived second = Live({.number = 2, .folder = here_},
                            [](const FakeRank& rank) { EXPECT_TRUE(rank.began_at_zero()); });
  EXPECT_EQ(second.reports[0].losses, 0);
}

TEST_F(StateKeeperTest, WithoutAnythingSavedItBeginsAtZeroWhichIsNoLoss) {
  const Lived life = Live({.start = 50, .folder = here_},
                          [](const FakeRank& rank) { EXPECT_TRUE(rank.began_at_zero()); });
  EXPECT_EQ(life.reports[0].losses, 0);
  EXPECT_THAT(life.log, HasSubstr("its inner optimizer starts from zero after step 50: inner "
                                  "state: none was saved on this machine"));
}

TEST_F(StateKeeperTest, ADamagedFileGivesWayToTheSaveBefore) {
  // In the values, in the header, cut off; of any rank.
  for (const int rank : {0, 1}) {
    for (const int64_t at : {-5, 40, 200}) {
      std::filesystem::remove_all(Job());
      Live({.ranks = 2, .steps = 20, .folder = here_});
      Damage(Path(19, rank, 2), at);
      const Lived second = Live({.ranks = 2, .number = 2, .start = 20, .folder = here_},
                                [](const FakeRank& of) { of.ExpectPut(13); });
      EXPECT_EQ(second.reports[0].losses, 0);
      EXPECT_THAT(second.log, HasSubstr("unusable inner state: " + Path(19, rank, 2)));
    }
    std::filesystem::resize_file(Path(13, rank, 2), 100);
    const Lived third = Live({.ranks = 2, .number = 3, .start = 20, .folder = here_},
                             [](const FakeRank& of) { EXPECT_TRUE(of.began_at_zero()); });
    EXPECT_EQ(third.reports[1].losses, 1);
    // Training replaces what is damaged.
    Live({.ranks = 2, .number = 4, .start = 20, .steps = 30, .folder = here_});
    EXPECT_THAT(Files(), SizeIs(4));
    Live({.ranks = 2, .number = 5, .start = 50, .folder = here_},
         [](const FakeRank& of) { of.ExpectPut(45); });
  }
}

TEST_F(StateKeeperTest, StateOfAnotherSpecIsOfNoUse) {
  Live({.steps = 10, .folder = here_});
  const Lived second = Live({.number = 2, .start = 10, .folder = here_, .spec = "another"},
                            [](const FakeRank& rank) { EXPECT_TRUE(rank.began_at_zero()); });
  EXPECT_THAT(second.log, HasSubstr("is of another job, spec or model"));
  EXPECT_EQ(second.reports[0].losses, 1);
}

TEST_F(StateKeeperTest, DataOfAnotherSizeIsToldAndTheStateIsUsed) {
  Live({.ranks = 2, .steps = 10, .folder = here_});
  for (const double tokens : {1000.0, 1200.0}) {
    const Lived second =
        Live({.ranks = 2, .number = 2, .start = 10, .folder = here_, .data_tokens = tokens},
             [](const FakeRank& rank) { rank.ExpectPut(7); });
    EXPECT_EQ(second.log.find("source 0 had 1000 tokens and has 1200") != std::string::npos,
              tokens != 1000);
  }
}

TEST_F(StateKeeperTest, AsManyOtherTokensAreToldAndTheStateIsUsed) {
  const auto told = [&](double sample) {
    const Lived lived = Live({.number = 2, .start = 10, .folder = here_, .data_sample = sample},
                             [](const FakeRank& rank) { rank.ExpectPut(7); });
    return lived.log.find("source 0 has as many tokens as before, but others") != std::string::npos;
  };
  Live({.steps = 10, .folder = here_});
  EXPECT_FALSE(told(77));
  EXPECT_TRUE(told(78));
}

// An earlier version has saved it.
TEST_F(StateKeeperTest, AStateThatDoesNotSayWhichTokensIsUsedWithoutAWord) {
  Live({.steps = 10, .folder = here_, .data_sample = 0});
  const Lived second = Live({.number = 2, .start = 10, .folder = here_},
                            [](const FakeRank& rank) { rank.ExpectPut(7); });
  EXPECT_EQ(second.log.find("has changed"), std::string::npos);
}

TEST_F(StateKeeperTest, OldStateIsDroppedInEitherDirection) {
  Live({.steps = 28, .folder = here_});
  for (const int64_t start : {14, 36}) {
    Live({.number = 2, .start = start, .folder = here_, .age_max = 11},
         [](const FakeRank& rank) { rank.ExpectPut(25); });
  }
  const Lived late = Live({.number = 2, .start = 37, .folder = here_, .age_max = 11},
                          [](const FakeRank& rank) { EXPECT_TRUE(rank.began_at_zero()); });
  EXPECT_THAT(late.log, HasSubstr("more than 11 steps away"));
  // The save before is nearer to a step that is not so far.
  Live({.number = 2, .start = 12, .folder = here_, .age_max = 11},
       [](const FakeRank& rank) { rank.ExpectPut(19); });
}

TEST_F(StateKeeperTest, SavesOfTwoLivesAreNotMixed) {
  Live({.ranks = 2, .steps = 10, .folder = here_});
  const std::string kept = dir_.Join("kept");
  std::filesystem::copy_file(Path(7, 1, 2), kept);
  Live({.ranks = 2, .number = 2, .steps = 10, .folder = here_});
  // As if the second life had been killed before rank 1 had replaced its file.
  std::filesystem::remove(Path(7, 1, 2));
  std::filesystem::copy_file(kept, Path(7, 1, 2));
  const Lived third = Live({.ranks = 2, .number = 3, .start = 10, .folder = here_},
                           [](const FakeRank& rank) { EXPECT_TRUE(rank.began_at_zero()); });
  EXPECT_THAT(third.log, HasSubstr("no save is complete on every rank of the pool"));
}

TEST_F(StateKeeperTest, NodesKeepTheirOwnRanksAndASwapOfNodesIsALoss) {
  const auto node = [this](int number) {
    const std::string folder = dir_.Join(absl::StrCat("node-", number));
    std::filesystem::create_directories(folder);
    return folder;
  };
  const auto nodes = [&](int rank) { return node(rank); };
  const auto swapped = [&](int rank) { return node(1 - rank); };
  Live({.ranks = 2, .steps = 10, .folder = nodes});
  Live({.ranks = 2, .number = 2, .start = 10, .folder = nodes},
       [](const FakeRank& rank) { rank.ExpectPut(7); });
  const Lived third = Live({.ranks = 2, .number = 3, .start = 10, .folder = swapped},
                           [](const FakeRank& rank) { EXPECT_TRUE(rank.began_at_zero()); });
  EXPECT_EQ(third.reports[0].losses, 1);
  EXPECT_THAT(third.log, HasSubstr("starts from zero after step 10: inner state: no save is "
                                   "complete on every rank of the pool; this node has of step 7 "
                                   "the files of rank 1 (the pool had 2 ranks, it has 2); give "
                                   "each node its number again (--node)"));
  // Nothing was removed: with their numbers again, the nodes go on.
  Live({.ranks = 2, .number = 4, .start = 10, .folder = nodes},
       [](const FakeRank& rank) { rank.ExpectPut(7); });
}

TEST_F(StateKeeperTest, AnotherNumberOfNodesWithoutASharedFolderIsALoss) {
  const auto node = [this](int rank) {
    const std::string folder = dir_.Join(absl::StrCat("node-", rank));
    std::filesystem::create_directories(folder);
    return folder;
  };
  Live({.ranks = 2, .steps = 10, .folder = node});
  for (const int ranks : {1, 3}) {
    const Lived other = Live({.ranks = ranks, .number = 2, .start = 10, .folder = node},
                             [](const FakeRank& rank) { EXPECT_TRUE(rank.began_at_zero()); });
    EXPECT_EQ(other.reports[0].losses, 1);
    EXPECT_THAT(other.log, HasSubstr(absl::StrCat("this node has of step 7 the files of rank 0 "
                                                  "(the pool had 2 ranks, it has ",
                                                  ranks, ")")));
  }
}

TEST_F(StateKeeperTest, WhatAnotherNumberOfRanksCannotTakeUpIsTold) {
  Live({.ranks = 2, .steps = 10, .folder = here_});
  const Lived same = Live({.ranks = 2, .number = 2, .start = 10, .folder = here_});
  EXPECT_THAT(same.log, Not(HasSubstr("is loaded without")));
  const Lived other = Live({.ranks = 3, .number = 3, .start = 10, .folder = here_});
  EXPECT_THAT(other.log, HasSubstr("inner state of step 7 is loaded without worker_error"));
}

TEST_F(StateKeeperTest, ARankWithoutAFolderStopsThePool) {
  const Lived life = Live({.ranks = 2, .steps = 20, .folder = [this](int rank) {
                             return rank == 0 ? dir_.path() : "";
                           }});
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(life.log, HasSubstr("rank 1 of this pool has no --state-dir"));
  EXPECT_EQ(life.reports[0], StateReport());
}

// Each node has a flag of its own.
TEST_F(StateKeeperTest, RanksSaveAtTheSlowestPaceOfTheirNodes) {
  const Lived life = Live({.ranks = 2, .steps = 20, .folder = here_, .every = [](int rank) {
                             return absl::Seconds(rank == 0 ? 30 : 60);
                           }});
  EXPECT_THAT(life.log, HasSubstr("every 1m:"));
  EXPECT_EQ(life.reports[0].saved_step, 13);
  EXPECT_EQ(life.reports[1].saved_step, 13);
}

TEST_F(StateKeeperTest, AFullDiskIsCountedAndTrainingGoesOn) {
  const auto posix = MakePosixFileSystem();
  FailingFileSystem disk(posix.get());
  Live({.ranks = 2, .steps = 10, .folder = here_});
  disk.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kWrite ? absl::ResourceExhaustedError("no space") : absl::OkStatus();
  });
  const Lived full =
      Live({.ranks = 2, .number = 2, .start = 10, .steps = 40, .folder = here_, .fs = &disk});
  EXPECT_GE(full.reports[0].failures, 3);
  EXPECT_THAT(full.log, HasSubstr("is not saved"));
  // What was there before is still there.
  Live({.ranks = 2, .number = 3, .start = 50, .folder = here_},
       [](const FakeRank& rank) { rank.ExpectPut(7); });
}

TEST_F(StateKeeperTest, ARankWhoseDiskFailsKeepsTheOthersFromPilingUp) {
  const auto posix = MakePosixFileSystem();
  FailingFileSystem disk(posix.get());
  int64_t writes = 0;
  std::mutex mutex;
  // Every second save fails on one of the two ranks, whichever it is.
  disk.SetDecision([&](int64_t, FileOp op) {
    const std::lock_guard lock(mutex);
    return op == FileOp::kRename && ++writes % 2 == 0 ? absl::DataLossError("broken")
                                                      : absl::OkStatus();
  });
  const Lived life = Live({.ranks = 2, .steps = 100, .folder = here_, .fs = &disk});
  EXPECT_EQ(life.reports[0].saved_step, 0);
  EXPECT_LE(Files().size(), 4u);
}

TEST_F(StateKeeperTest, TheEndOfTheJobRemovesIt) {
  Live({.ranks = 3, .steps = 30, .folder = here_});
  std::ofstream(Path(5, 7, 8) + ".tmp") << "of a crash";
  Live({.ranks = 2, .number = 2, .start = 30, .steps = 10, .folder = here_, .ends = true});
  EXPECT_FALSE(std::filesystem::exists(Job()));
}

// What looks old may have been written a minute ago, by another clock.
TEST_F(StateKeeperTest, StateOfOtherJobsStaysHoweverOldItLooks) {
  const std::string folder = JoinPath(PoolStateFolder(dir_.path(), "pool"), "other");
  std::filesystem::create_directories(folder);
  const std::string path = JoinPath(folder, StateFileName{7, 0, 1}.Text());
  std::ofstream(path) << "bytes";
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * 90));
  Live({.folder = here_});
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(StateKeeperTest, StateBesideIsKeptToo) {
  const auto fs = MakePosixFileSystem();
  const InnerStateSlot slot{InnerStateKind::kUplinkError, 1, 100, 3};
  for (const uint64_t life : {1, 2}) {
    RunFakePool(1, [&](FakeRank& replica) {
      ManualClock clock;
      StateKeeper keeper(
          {.folder = dir_.path(), .owner = {.job = "job", .pool = "pool"}, .life = life}, &replica,
          &clock, fs.get());
      std::vector<float> put;
      keeper.KeepBeside({.take =
                             [&](size_t index, InnerState& state) {
                               PartFor(slot, index, state).values = {1, 2, 3};
                               state.phase.push_back({"uplink_version/0", 7});
                               return absl::OkStatus();
                             },
                         .slots = [&] { return std::vector<InnerStateSlot>{slot}; },
                         .put =
                             [&](const InnerState& state) {
                               EXPECT_EQ(PhaseValue(state.phase, "uplink_version/0"), 7);
                               for (const InnerStatePart& part : state.parts) {
                                 if (part.slot == slot) put = part.values;
                               }
                               return absl::OkStatus();
                             }});
      ASSERT_TRUE(keeper.Resume(life == 1 ? 0 : 1).ok());
      EXPECT_EQ(put, life == 1 ? std::vector<float>() : (std::vector<float>{1, 2, 3}));
      ASSERT_TRUE(keeper.AfterStep(1, /*last=*/true).ok());
    });
  }
}

}  // namespace
}  // namespace longhaul
