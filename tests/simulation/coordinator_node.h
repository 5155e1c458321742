// The simulated coordinator: the product's performer, core, fragments and stores, over a database
// and a disk in memory, in virtual time. What surrounds them is simulated: the runners of tasks, the
// streams, and crashes, which may fall before and after each effect.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/io/memory_filesystem.h"
#include "common/metrics/registry.h"
#include "coordinator/effects/performer.h"
#include "tests/simulation/world.h"
#include "worker/session/core/event.h"

namespace longhaul::simulation {

struct PushRequest {
  RankId from;
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  // Those that the rank owns count.
  Words words;
};
struct PullRequest {
  RankId from;
  int fragment = 0;
  int64_t version = 0;
  bool whole = false;
};
struct PullAnswer {
  absl::Status refused;
  int64_t version = 0;
  Words words = {};
};

class CoordinatorNode : private coordinator::Publisher, private coordinator::Arbiter {
 public:
  using Answer = std::function<void(const coordinator::Answer&)>;
  using Stream = std::function<void(const session::Event&)>;

  explicit CoordinatorNode(World* world);
  ~CoordinatorNode() override;

  void Start();
  void Crash();
  bool up() const { return life_ != nullptr; }
  MetaStore& meta() const { return *meta_; }
  MemoryFileSystem& disk() const { return *disk_; }

  // Calls, as they arrive. What they answer with is sent by the caller; nothing, if it died before it
  // answered. The id is the idempotency token, too.
  std::optional<absl::Status> Submit(const v1::JobSpec& spec, const std::string& id);
  // False: it died before it answered.
  bool Cancel(const std::string& name);
  std::optional<coordinator::Answer> AskCheckpoint(const std::string& name);
  std::optional<absl::StatusOr<coordinator::Performer::Deleted>> Delete(const std::string& name);
  // A name for a new group of nodes is given to it here.
  void Join(coordinator::JoinPool join, const Answer& answer);
  void Heartbeat(const coordinator::Heartbeat& heartbeat, const Answer& answer);
  void Leave(const coordinator::LeavePool& leave);
  void Watch(const RankId& who, Stream stream);
  // Nothing: it crashed, nobody answers.
  std::optional<absl::Status> Push(const PushRequest& push);
  std::optional<PullAnswer> Pull(const PullRequest& pull);

 private:
  class Runner;
  class Records;
  struct Life;
  // Thrown where the process dies, caught where it was entered.
  struct Died {};

  // Publisher.
  void SeedRequested(const coordinator::LiveJob& job,
                     const coordinator::RequestSeed& request) override;
  void CommitPublished(const coordinator::LiveJob& job,
                       const coordinator::PublishCommit& commit) override;
  void PoolReleased(const coordinator::LiveJob& job,
                    const coordinator::ReleasePool& release) override;
  void JobEnded(const coordinator::LiveJob& job, const coordinator::EndJob& end) override;
  void JobChanged(const coordinator::LiveJob& job) override {}
  std::string StatusOf(const coordinator::LiveJob& job,
                       const std::optional<JobFault>& fault) override {
    return "";
  }

  // Arbiter. Everything is one thread here.
  absl::Status Judge(const coordinator::ContributionId& contribution) const override;
  absl::Status CheckReader(const std::string& job, const std::string& pool,
                           const std::string& incarnation) const override;
  absl::Status Complete(const coordinator::ContributionId& contribution) override;
  void StoreFailed(const std::string& job, const absl::Status& status) override;

  // Runs what enters the process; false: it died meanwhile.
  bool Enter(const std::function<void()>& run);
  // A moment between two effects.
  void MayDie();
  void Step(const coordinator::Event& event, const Answer& answer);
  void Tick();
  // What an agent is told; the checker hears it first.
  coordinator::Answer Granted(const coordinator::Answer& given);
  std::vector<NodeView> NodesOf(const std::string& pool) const;
  // Tells the checker with what a submitted job begins, if that is a checkpoint.
  void ObserveBeginning(const ResolvedJob& resolved, const std::string& id);
  // Tells the checker of versions that became durable.
  void Observe();
  void ObserveFragment(const coordinator::JobFragments& job, int fragment);
  void ForgetEverything();

  World* world_;
  // What survives a crash.
  std::unique_ptr<MetaStore> meta_;
  std::unique_ptr<MemoryFileSystem> disk_, earlier_disk_;
  std::unique_ptr<Life> life_;
  int64_t lives_ = 0;
  std::string submitting_;
  // Names of groups of nodes.
  int64_t groups_ = 0;
  // By pool and machine, for a mutation: the first place there.
  std::map<std::pair<std::string, std::string>, NodePlace> first_places_;
  // Of the jobs, when the round that is being applied was decided.
  using Views = std::map<std::string, coordinator::JobView>;
  Views views_;
  std::map<std::string, OuterRule> rules_;
  // Of the first push of each job, fragment and version, for a mutation.
  std::map<std::tuple<std::string, int, int64_t>, Words> first_words_;
  // By job, pool, rank.
  using StreamKey = std::tuple<std::string, std::string, int>;
  struct Watcher {
    std::string incarnation;
    Stream stream;
  };
  std::map<StreamKey, Watcher> streams_;
};

}  // namespace longhaul::simulation
