#include "worker/agent/node_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Ranks that are shell scripts. A rank is told its number as in "--rank 3".
class NodeRanksTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.coordinator = "127.0.0.1:1";
    options_.pool = "site-a";
    options_.ranks = 2;
    options_.bulk_channels = 3;
    options_.log = Logger({.level = LogLevel::kError});
    options_.rank_program = dir_.path() + "/rank";
  }

  void Prepare(const std::string& script) {
    std::ofstream(options_.rank_program) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(options_.rank_program, std::filesystem::perms::owner_all);
    auto ranks =
        NodeRanks::Create(options_, {.on_report = [](uint64_t, int, const RankReport&) {},
                                     .on_exit =
                                         [this](uint64_t group, int rank, int code) {
                                           absl::MutexLock lock(&mutex_);
                                           exits_.insert({group, rank, code});
                                         },
                                     .round_trip = [this]() -> absl::StatusOr<absl::Duration> {
                                       ++round_trips_;
                                       return absl::UnavailableError("no answer");
                                     }});
    ASSERT_TRUE(ranks.ok()) << ranks.status();
    ranks_ = *std::move(ranks);
  }

  NodeRanks::Work Work(const std::string& job, int first_rank = 0) {
    NodeRanks::Work work{.incarnation = "i1"};
    work.assignment.set_job_id(job);
    work.place.set_ranks(options_.ranks * options_.nodes);
    work.place.set_first_rank(first_rank);
    for (int node = 0; node < options_.nodes; ++node) work.place.add_ranks_of_node(options_.ranks);
    return work;
  }

  using Exits = std::set<std::tuple<uint64_t, int, int>>;
  Exits AwaitExits(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto all = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return exits_.size() >= count; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(30)));
    return exits_;
  }

  std::string Read(const std::string& name) {
    std::stringstream text;
    text << std::ifstream(dir_.path() + "/" + name).rdbuf();
    return text.str();
  }

  TempDir dir_;
  AgentOptions options_;
  int round_trips_ = 0;
  absl::Mutex mutex_;
  Exits exits_ ABSL_GUARDED_BY(mutex_);
  // Its threads use the members above.
  std::unique_ptr<NodeRanks> ranks_;
};

// Each rank writes what it is told to a file of its own, and ends.
constexpr char kTell[] =
    R"(all="$*"; while [ "$1" != --rank ]; do shift; done
       cat >"$(dirname "$0")/job-$2"; echo "$all" >"$(dirname "$0")/said-$2"
       exit 1$2
)";

TEST_F(NodeRanksTest, EachRankIsToldItsPlaceAndTheJob) {
  Prepare(kTell);
  ASSERT_TRUE(ranks_->Start(Work("job-1")).ok());
  const uint64_t group = ranks_->group();
  EXPECT_THAT(AwaitExits(2), ElementsAre(std::tuple(group, 0, 10), std::tuple(group, 1, 11)));
  EXPECT_THAT(Read("said-0"), HasSubstr("--pool site-a --incarnation i1 "));
  EXPECT_THAT(Read("said-1"), HasSubstr("--rank 1 --local-rank 1 --ranks 2 --ranks-of-node 2 "));
  EXPECT_THAT(Read("said-1"), HasSubstr("--rendezvous 127.0.0.1:"));
  EXPECT_THAT(Read("said-1"), HasSubstr("--bulk-channels 3 "));
  EXPECT_THAT(Read("job-1"), HasSubstr(R"("jobId":"job-1")"));
  EXPECT_EQ(round_trips_, 0) << "the user chose the number of channels";
}

// They would end at once, and only their own log would say why.
TEST_F(NodeRanksTest, RanksWithoutFilesOfTlsAreNotStarted) {
  Prepare(kTell);
  // Replaced by others since the agent began.
  std::ofstream(dir_.Join("ca.pem")) << "half a fi";
  options_.tls_files = {dir_.Join("ca.pem"), dir_.Join("a.pem"), dir_.Join("a.key")};
  const absl::Status status = ranks_->Start(Work("job-1"));
  EXPECT_THAT(std::string(status.message()),
              testing::StartsWith("the ranks cannot start: --tls-ca " + dir_.Join("ca.pem")));
  EXPECT_FALSE(std::filesystem::exists(dir_.Join("said-0")));
  options_.tls_files = {};
  EXPECT_TRUE(ranks_->Start(Work("job-1")).ok());
  AwaitExits(2);
}

TEST_F(NodeRanksTest, NumbersOfAPoolWithSeveralNodes) {
  options_.nodes = 2;
  options_.node = 1;
  options_.in_pool_address = "127.0.0.1";
  options_.in_pool_interface = "lo";
  Prepare(kTell);
  v1::JoinRequest join;
  ranks_->DescribeMeeting(join);
  EXPECT_EQ(join.address(), "127.0.0.1");
  EXPECT_GT(join.rendezvous_port(), 0);
  EXPECT_NE(join.rendezvous_token(), "");
  NodeRanks::Work work = Work("job-1", 2);
  work.place.set_node(1);
  work.place.set_rendezvous("127.0.0.2:77");
  ASSERT_TRUE(ranks_->Start(work).ok());
  AwaitExits(2);
  EXPECT_THAT(Read("said-3"), HasSubstr("--rank 3 --local-rank 1 --ranks 4 --ranks-of-node 2,2 "));
  EXPECT_THAT(Read("said-3"), HasSubstr("--rendezvous 127.0.0.2:77 --generation "));
  EXPECT_THAT(Read("said-3"), HasSubstr("--in-pool-address 127.0.0.1 "));
}

TEST_F(NodeRanksTest, AStartEndsTheGroupBefore) {
  options_.bulk_channels = 0;
  Prepare("exec sleep 1000\n");
  ASSERT_TRUE(ranks_->Start(Work("job-1")).ok());
  const uint64_t first = ranks_->group();
  const pid_t before = ranks_->pid(0);
  EXPECT_EQ(kill(before, 0), 0);
  ASSERT_TRUE(ranks_->Start(Work("job-2")).ok());
  EXPECT_NE(kill(before, 0), 0);
  EXPECT_GT(ranks_->group(), first);
  EXPECT_THAT(AwaitExits(2), ElementsAre(std::tuple(first, 0, 128 + SIGKILL),
                                         std::tuple(first, 1, 128 + SIGKILL)));
  EXPECT_EQ(round_trips_, 1) << "the number of channels is chosen once";
  ranks_->Signal(SIGTERM);
  EXPECT_EQ(AwaitExits(4).count({ranks_->group(), 0, 128 + SIGTERM}), 1u);
}

TEST_F(NodeRanksTest, AProgramThatIsNotThereIsAnError) {
  Prepare("");
  std::filesystem::remove(options_.rank_program);
  const absl::Status status = ranks_->Start(Work("job-1"));
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(options_.rank_program));
}

}  // namespace
}  // namespace longhaul
