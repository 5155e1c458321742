// The agent between a PoolService and rank processes that are shell scripts.
#include "worker/agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include "absl/time/clock.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/agent/pool_server.h"

namespace longhaul {
namespace {

class AgentTest : public testing::Test {
 protected:
  // Runs an agent whose ranks run this script. The script may use $folder.
  void Start(const std::string& script, int ranks = 1, int nodes = 1) {
    const std::string program = folder_.Join("rank");
    std::ofstream(program) << "#!/bin/sh\nfolder=" << folder_.path() << "\ncat > /dev/null\n"
                           << script;
    chmod(program.c_str(), 0755);
    main_ = std::thread([this, program, ranks, nodes] {
      const auto agent = Agent::Start({.coordinator = server_.address,
                                       .pool = "site-a",
                                       .ranks = ranks,
                                       .nodes = nodes,
                                       .in_pool_address = "127.0.0.1",
                                       .cores = cores_,
                                       .bulk_channels = 1,
                                       .state_dir = state_dir_,
                                       .rank_program = program,
                                       .log = Logger({.stream = &log_}),
                                       .heartbeat = absl::Milliseconds(10),
                                       .return_within = absl::Minutes(7),
                                       .capabilities = {"model:synthetic"}});
      {
        absl::MutexLock lock(&mutex_);
        agent_ = agent->get();
      }
      result_ = (*agent)->Run();
    });
    absl::MutexLock lock(&mutex_);
    const auto started = [this] { return agent_ != nullptr; };
    mutex_.Await(absl::Condition(&started));
  }
  void Drain() {
    agent_->Drain();
    main_.join();
    EXPECT_TRUE(result_.ok()) << result_;
  }
  // Waits until ranks were started so often. Each start writes a line into a file.
  void AwaitStarts(int times) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    for (;;) {
      std::ifstream file(folder_.Join("starts"));
      const int lines = static_cast<int>(
          std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
      if (lines >= times) return;
      ASSERT_LT(absl::Now(), deadline);
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  const TempDir folder_;
  // The ranks' cores; set before Start.
  std::vector<RankCores> cores_;
  std::string state_dir_;
  std::ostringstream log_;
  PoolServer server_;
  absl::Mutex mutex_;
  Agent* agent_ = nullptr;
  absl::Status result_;
  std::thread main_;
};

constexpr char kTrains[] = R"(
trap 'touch $folder/drained; echo "{\"draining\": true}" >&3; exit 0' TERM
echo started >> $folder/starts
echo 'status 1 0.1 0 ' >&3
while :; do sleep 0.01; done
)";

TEST_F(AgentTest, DrainsItsRanksAndLeavesToReturn) {
  server_.Assign("job");
  Start(kTrains);
  AwaitStarts(1);
  Drain();
  EXPECT_TRUE(std::filesystem::exists(folder_.Join("drained")));
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_TRUE(server_.beats.back().draining());
  ASSERT_EQ(server_.leaves.size(), 1u);
  EXPECT_EQ(server_.leaves[0].return_within().seconds(), 7 * 60);
}

TEST_F(AgentTest, StopsItsRanksWhenItsJobIsPausedAndTakesOtherWork) {
  server_.capabilities = {"assignment:stop"};
  server_.Assign("job");
  Start(kTrains);
  AwaitStarts(1);
  {
    absl::MutexLock lock(&server_.mutex_);
    EXPECT_THAT(server_.joins[0].capabilities(), testing::Contains("assignment:stop"));
    server_.assignment.set_stop(true);
  }
  server_.Until([&] { return !server_.beats.empty() && server_.beats.back().stopped(); });
  EXPECT_TRUE(std::filesystem::exists(folder_.Join("drained")));
  {
    absl::MutexLock lock(&server_.mutex_);
    EXPECT_TRUE(server_.beats.back().stopping());
    EXPECT_FALSE(server_.beats.back().draining());
    server_.assignment.set_stop(false);
  }
  server_.Assign("other");
  AwaitStarts(2);
  server_.Until([&] { return server_.beats.back().job_id() == "other"; });
  Drain();
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_EQ(server_.joins.size(), 1u) << "it stayed";
}

TEST_F(AgentTest, PassesOnThatThePoolHasMergedTheLastCommits) {
  server_.Assign("job");
  Start("echo '{\"merged\": true}' >&3\n" + std::string(kTrains));
  server_.Until([&] { return !server_.beats.empty() && server_.beats.back().merged(); });
  Drain();
}

TEST_F(AgentTest, TellsRanksTheirCores) {
  server_.Assign("job");
  cores_ = {{.threads = 3, .processors = {0, 1, 4}}};
  Start("echo \"$OMP_NUM_THREADS: $*\" >> $folder/arguments\n" + std::string(kTrains), /*ranks=*/2);
  AwaitStarts(2);
  Drain();
  std::set<std::string> lines;
  std::ifstream file(folder_.Join("arguments"));
  for (std::string line; std::getline(file, line);) lines.insert(line);
  ASSERT_EQ(lines.size(), 2u);
  const std::string &other = *lines.begin(), &first = *lines.rbegin();
  EXPECT_THAT(first, testing::StartsWith("3: "));
  EXPECT_THAT(first, testing::HasSubstr("--threads 3 "));
  EXPECT_THAT(first, testing::HasSubstr("--cpus 0-1,4"));
  EXPECT_THAT(other, testing::StartsWith("1: "));
  EXPECT_THAT(other, testing::HasSubstr("--threads 1 "));
  EXPECT_THAT(other, testing::Not(testing::HasSubstr("--cpus")));
}

TEST_F(AgentTest, ASiteFaultIsReportedOnceAndTheJobIsBegunAgainAsAnotherIncarnation) {
  server_.Assign("job");
  Start(R"(
echo started >> $folder/starts
echo '{"failure": {"code": "NOT_FOUND", "faultClass": "SITE_FAULT"}}' >&3
echo '{"failure": {"code": "NOT_FOUND", "faultClass": "SITE_FAULT"}}' >&3
exit 11
)");
  const auto failed = [&] {
    return std::count_if(server_.beats.begin(), server_.beats.end(),
                         [](const auto& beat) { return beat.has_failure(); });
  };
  server_.Until([&] { return failed() == 1; });
  // The pool is set aside.
  server_.Assign("");
  server_.Until([&] { return server_.beats.back().job_id().empty(); });
  // The pool tries again.
  server_.Assign("job");
  AwaitStarts(2);
  server_.Until([&] { return failed() == 2; });
  Drain();
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_EQ(server_.joins.size(), 2u);
  EXPECT_EQ(server_.joins[0].capabilities(0), "model:synthetic");
  for (const v1::HeartbeatRequest& beat : server_.beats) {
    if (!beat.has_failure()) continue;
    EXPECT_EQ(beat.failure().fault_class(), v1::SITE_FAULT);
    EXPECT_EQ(beat.failure().pool(), "site-a");
  }
}

TEST_F(AgentTest, RanksThatEndedAreStartedAgainWhileTheJobIsAssigned) {
  server_.Assign("job");
  Start("echo started >> $folder/starts\n");
  AwaitStarts(2);
  Drain();
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_EQ(server_.joins.size(), 1u) << "the pool keeps its place";
}

TEST_F(AgentTest, ALostRankBringsThePoolBackAsAnotherIncarnation) {
  server_.Assign("job");
  Start("echo started >> $folder/starts\nexit 10\n");
  AwaitStarts(2);
  Drain();
  absl::MutexLock lock(&server_.mutex_);
  ASSERT_GE(server_.joins.size(), 2u);
  EXPECT_NE(server_.joins[0].incarnation(), server_.joins[1].incarnation());
}

TEST_F(AgentTest, GroupsOfRanksMeetAtOnePlaceEachAsAGenerationOfItsOwn) {
  server_.Assign("job");
  Start(R"(
case "$*" in *"$LONGHAUL_RENDEZVOUS_TOKEN"*) touch $folder/told;; esac
while [ $# -gt 0 ]; do
  case $1 in --rendezvous) place=$2;; --generation) generation=$2;; esac
  shift
done
echo "$place $generation" >> $folder/meetings
echo started >> $folder/starts
exit 10
)",
        2);
  // So ranks of at least two groups were started.
  AwaitStarts(3);
  Drain();
  std::set<std::string> places, generations;
  std::ifstream meetings(folder_.Join("meetings"));
  for (std::string place, generation; meetings >> place >> generation;) {
    places.insert(place);
    generations.insert(generation);
  }
  EXPECT_EQ(places.size(), 1u);
  EXPECT_GE(generations.size(), 2u);
  EXPECT_FALSE(std::filesystem::exists(folder_.Join("told"))) << "arguments are seen by everybody";
}

// A script that writes what it was told about its place.
constexpr char kTellsItsPlace[] = R"(
while [ $# -gt 0 ]; do
  case $1 in
    --rank) rank=$2;; --local-rank) local=$2;; --ranks) ranks=$2;; --generation) generation=$2;;
    --incarnation) group=$2;; --rendezvous) place=$2;; --in-pool-address) own=$2;;
  esac
  shift
done
echo "$rank $local $ranks $group $place $own $LONGHAUL_RENDEZVOUS_TOKEN $generation" >> $folder/places
echo started >> $folder/starts
)";

TEST_F(AgentTest, RanksOfANodeAreNumberedInThePool) {
  server_.Assign("job");
  server_.node.set_node(1);
  server_.node.set_missing("node 0 of 2");
  Start(std::string(kTellsItsPlace) + "while :; do sleep 0.01; done\n", 2, 2);
  server_.Until([&] { return server_.beats.size() > 2; });
  EXPECT_FALSE(std::filesystem::exists(folder_.Join("starts"))) << "nodes are missing";
  {
    absl::MutexLock lock(&server_.mutex_);
    EXPECT_EQ(server_.joins[0].nodes(), 2);
    EXPECT_EQ(server_.joins[0].address(), "127.0.0.1");
    EXPECT_GT(server_.joins[0].rendezvous_port(), 0);
    EXPECT_GE(server_.joins[0].rendezvous_token().size(), 16u);
    server_.node.clear_missing();
    server_.node.set_incarnation("9999999999999999");
    server_.node.set_first_rank(3);
    server_.node.set_ranks(5);
    server_.node.set_rendezvous("127.0.0.2:7001");
    server_.node.set_rendezvous_token("the other's");
  }
  AwaitStarts(2);
  {
    // The coordinator started again, and has not heard from the other node.
    absl::MutexLock lock(&server_.mutex_);
    server_.node.set_missing("node 0 of 2");
    server_.node.clear_first_rank();
    server_.node.clear_ranks();
  }
  const size_t beats = server_.beats.size();
  server_.Until([&] { return server_.beats.size() > beats + 3; });
  Drain();
  std::ifstream places(folder_.Join("places"));
  std::multiset<std::string> lines;
  for (std::string line; std::getline(places, line);) lines.insert(line.substr(0, line.rfind(' ')));
  EXPECT_EQ(lines, (std::multiset<std::string>{
                       "3 0 5 9999999999999999 127.0.0.2:7001 127.0.0.1 the other's",
                       "4 1 5 9999999999999999 127.0.0.2:7001 127.0.0.1 the other's"}));
}

TEST_F(AgentTest, AGroupOfNodesBeginsAJobOnce) {
  server_.Assign("job");
  server_.node.set_incarnation("9999999999999999");
  server_.node.set_ranks(2);
  server_.node.set_rendezvous("127.0.0.1:7001");
  server_.node.set_rendezvous_token("a token of 16 bytes");
  Start(kTellsItsPlace, 1, 2);
  server_.Until([&] { return server_.joins.size() == 2; });
  AwaitStarts(2);
  Drain();
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_NE(server_.joins[0].incarnation(), server_.joins[1].incarnation());
}

TEST_F(AgentTest, RemovesTheStateOfJobsThatEndedWhileItWasAway) {
  namespace fs = std::filesystem;
  state_dir_ = folder_.Join("state");
  const fs::path kept = fs::path(state_dir_) / "site-a";
  for (const char* job : {"ended", "lives", "runs", "other"}) {
    fs::create_directories(kept / job);
    std::ofstream(kept / job / "step-000000000012.rank-0-of-1.safetensors") << "state";
  }
  std::ofstream(kept / "other/notes") << "not of this program";
  fs::create_directories(kept / "empty");
  server_.Assign("runs");
  // A coordinator that names the assigned job, or what was not asked about, is not believed.
  server_.ended_jobs = {"ended", "runs", "other", "../site-a/lives"};
  Start(kTrains);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (fs::exists(kept / "ended") && absl::Now() < deadline)
    absl::SleepFor(absl::Milliseconds(10));
  EXPECT_FALSE(fs::exists(kept / "ended"));
  Drain();
  for (const char* job : {"lives", "runs", "other"}) EXPECT_TRUE(fs::exists(kept / job)) << job;
  absl::MutexLock lock(&server_.mutex_);
  const auto& asked = server_.joins[0].kept_jobs();
  EXPECT_THAT(std::vector<std::string>(asked.begin(), asked.end()),
              testing::UnorderedElementsAre("ended", "lives", "runs"));
}

TEST_F(AgentTest, ARefusalForGoodEndsIt) {
  server_.join_error = absl::InvalidArgumentError("ranks: too many");
  Start(kTrains);
  main_.join();
  EXPECT_TRUE(absl::IsInvalidArgument(result_)) << result_;
}

}  // namespace
}  // namespace longhaul
