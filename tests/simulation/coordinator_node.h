// The simulated coordinator: the product's performer, core, fragments and stores, over a database
// and a disk in memory, in virtual time. What surrounds them is simulated: the runners of tasks,
// the streams, and crashes, which may fall before and after each effect.
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

#include "common/metrics/registry.h"
#include "coordinator/effects/performer.h"
#include "coordinator/store/uploads.h"
#include "tests/simulation/world.h"
#include "tests/testing/memory_filesystem.h"
#include "worker/session/core/event.h"

namespace longhaul::simulation {

// A database, to MetaStore.
inline constexpr char kInMemory[] = ":memory:";

struct PushRequest {
  RankId from;
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  // Only the words that the rank owns count.
  Words words;
  int64_t weight = 1;
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

  // `database`: the path of a file, which another coordinator may try to open; or kInMemory.
  CoordinatorNode(World* world, const std::string& database);
  ~CoordinatorNode() override;

  void Start();
  // Another coordinator is started on the same data folder. It is refused while one runs.
  void StartAnother();
  void Crash();
  // Crashes it, and damages a file of a job before it starts again.
  void CrashWithDamage();
  // Crashes it, and repairs what was damaged of these jobs.
  void CrashAndRepair(const std::vector<std::string>& jobs);
  // Crashes it, and its database is lost: the jobs' folders are adopted into a new one.
  void CrashAndAdopt();
  bool up() const { return life_ != nullptr; }
  MetaStore& meta() const { return *meta_; }
  MemoryFileSystem& disk() const { return *disk_; }

  // Calls when they arrive. The caller of the function sends the answer. nullopt: the coordinator
  // crashed before it answered. The id is also the idempotency token.
  std::optional<absl::Status> Submit(const v1::JobSpec& spec, const std::string& id);
  // False: it must be asked again, since it crashed, its disk is full, or the job is quarantined.
  bool Cancel(const std::string& name);
  // `stays`: nobody will resume it.
  bool Pause(const std::string& name, bool stays);
  bool Resume(const std::string& name);
  std::optional<coordinator::Answer> AskCheckpoint(const std::string& name);
  std::optional<absl::StatusOr<coordinator::Deleted>> Delete(const std::string& name);
  // If it makes a new group of nodes, this gives the group its name.
  void Join(coordinator::JoinPool join, const Answer& answer);
  void Heartbeat(const coordinator::Heartbeat& heartbeat, const Answer& answer);
  void Leave(const coordinator::LeavePool& leave);
  void Watch(const RankId& who, Stream stream);
  // nullopt: it has crashed and does not answer.
  std::optional<absl::Status> Push(const PushRequest& push);
  std::optional<PullAnswer> Pull(const PullRequest& pull);

 private:
  using FragmentKey = std::pair<std::string, int>;
  using Views = std::map<FragmentKey, coordinator::JobView>;

  class Runner;
  class Records;
  class LoopClock;
  struct Life;
  // Thrown where the process dies, caught where it was entered.
  struct Died {};

  // Publisher.
  void SeedRequested(const coordinator::LiveJob& job,
                     const coordinator::RequestSeed& request) override;
  void CommitPublished(const coordinator::LiveJob& job,
                       const coordinator::PublishCommit& commit) override;
  void RoundCalled(const coordinator::LiveJob& job, const coordinator::CallRound& call) override;
  void PoolReleased(const coordinator::LiveJob& job,
                    const coordinator::ReleasePool& release) override;
  void JobEnded(const coordinator::LiveJob& job, const coordinator::EndJob& end) override;
  void JobChanged(const coordinator::LiveJob& job) override;
  std::string StatusOf(const coordinator::LiveJob& job, const JobRecord& record,
                       const std::optional<JobFault>& fault) override;

  // Arbiter. The simulation has one thread.
  absl::Status Judge(const coordinator::ContributionId& contribution) const override;
  absl::Status CheckReader(const std::string& job, const std::string& pool,
                           const std::string& incarnation) const override;
  std::set<int64_t> InitialSteps(const std::string& job) const override;
  absl::Status Complete(const coordinator::ContributionId& contribution) override;
  void ReportStoreFailure(const std::string& job, const absl::Status& status) override;

  // The view of each fragment's job whose round is being applied, with the pools that had a part in
  // the decision to close the round.
  Views Decided();
  // Of the process that runs.
  coordinator::Performer& performer() const;
  // Runs a function in the process. False: the process crashed meanwhile.
  bool Enter(const std::function<void()>& run);
  // Called between two effects, where the process may crash.
  void MayDie();
  void Step(const coordinator::Event& event, const Answer& answer);
  // As the service: what counts of the evaluations in a heartbeat.
  absl::Status TakeEvaluations(coordinator::Heartbeat& heartbeat);
  // Whether it was answered, other than that it must come again. `accepted`: and not refused.
  bool Ask(const coordinator::Event& event, bool* accepted = nullptr);
  void Tick();
  // A contribution is whole. The disk may have changed a byte of it, or cannot read a part of it.
  void StrikeParts(const PushRequest& push);
  // Gives those bytes back that recovery would take for the torn end of a log, of jobs whose store
  // is not in memory.
  void RepairEnds();
  // What users sent. Null: it cannot be opened now.
  Uploads* FindUploads();
  // The folder of this job in the import folder, with its initial parameters.
  std::string MakeFolder(const ResolvedJob& resolved);
  // Sends that folder.
  absl::Status Upload(const std::string& folder, v1::InitSpec& init);
  absl::Status ResolveBeginning(ResolvedJob& resolved);
  // Another stream, which reads the same, takes a while.
  void Dawdle(const PullSource& source);
  // What an agent is told. The checker is told first.
  coordinator::Answer Granted(const coordinator::Answer& given);
  std::vector<NodeView> NodesOf(const std::string& pool) const;
  // If a submitted job does not begin with a pool's parameters, tells the checker with which.
  void ObserveBeginning(const ResolvedJob& resolved, const std::string& id);
  // Tells the checker of versions that became durable.
  void Observe();
  void ObserveFragment(const coordinator::JobFragments& job, int fragment);
  // Whether a pool is here that can do every job.
  bool CouldBeDone() const;
  void ForgetEverything();

  World* world_;
  const std::string database_;
  // What survives a crash.
  std::unique_ptr<MetaStore> meta_;
  std::unique_ptr<MemoryFileSystem> disk_, earlier_disk_;
  std::unique_ptr<Life> life_;
  int64_t lives_ = 0;
  // The stores that were open, with what each takes while anything holds it.
  struct Resident {
    std::weak_ptr<coordinator::SharedStore> store;
    std::string job;
    int64_t memory = 0;
  };
  std::vector<Resident> resident_;
  std::string submitting_;
  int64_t readers_ = 0;
  // Bytes that the disk changed since the last start.
  struct StruckByte {
    std::string job, path;
    int64_t at = 0;
    char before = 0, after = 0;
    // Of the frame.
    uint64_t sequence = 0;
  };
  std::vector<StruckByte> struck_;
  // Names of groups of nodes.
  int64_t groups_ = 0;
  // For a mutation: the first place of each pool and machine.
  std::map<std::pair<std::string, std::string>, NodePlace> first_places_;
  // The pools of each fragment's job when the round that is now applied was decided.
  Views views_;
  // Likewise, for each fragment's newest round.
  Views closed_;
  std::map<std::string, OuterRule> rules_;
  // For a mutation: the first push of each job, fragment and version.
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
