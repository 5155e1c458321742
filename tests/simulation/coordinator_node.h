// The simulated coordinator: its core, a shell that performs the actions, and the durable store
// under it. A crash may fall between any two actions; what is not in the store is gone then.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "coordinator/core/coordinator.h"
#include "tests/simulation/durable_store.h"
#include "tests/simulation/world.h"
#include "worker/session/core/event.h"

namespace longhaul::simulation {

struct PushRequest {
  RankId from;
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  Words words;  // Those that the rank owns count.
};
struct PullRequest {
  RankId from;
  int fragment = 0;
  int64_t version = 0;
  bool whole = false;
};
struct PullAnswer {
  int64_t version = 0;
  Words words;
  std::optional<coordinator::Refuse> refused;
};

class CoordinatorNode {
 public:
  using Answer = std::function<void(const coordinator::Action&)>;  // Refuse or GrantLease.
  using Stream = std::function<void(const session::Event&)>;
  using Refusal = std::optional<coordinator::Refuse>;

  explicit CoordinatorNode(World* world) : world_(world) {}

  void Start();
  void Crash();
  bool up() const { return core_.has_value(); }
  const DurableStore& store() const { return store_; }

  // Calls, as they arrive. What they answer with is sent by the caller.
  bool Submit(const std::string& job,
              const JobOptions& options);  // False: it died before it answered.
  void Cancel(const std::string& job);
  void Join(const std::string& pool, const std::string& incarnation, int ranks,
            const Answer& answer);
  void Heartbeat(const coordinator::Heartbeat& heartbeat, const Answer& answer);
  void Leave(const std::string& pool, const std::string& incarnation);
  void Evaluated(const coordinator::EvaluationReported& evaluation);
  void Watch(const RankId& who, Stream stream);
  void Push(const PushRequest& push, const std::function<void(const Refusal&)>& answer);
  PullAnswer Pull(const PullRequest& pull) const;

 private:
  using StreamKey = std::tuple<std::string, std::string, int>;  // Job, pool, rank.
  struct Arriving {
    Words words = Words(kWords);
    std::set<int> words_here;
  };

  // False: it crashed on the way.
  bool Perform(const coordinator::Event& event, const Answer& answer = nullptr);
  void Do(const coordinator::Refuse&) {}
  void Do(const coordinator::GrantLease& grant);
  void Do(const coordinator::PersistJobState& action);
  void Do(const coordinator::PersistParticipant& action);
  void Do(const coordinator::PersistParticipantLeft& action) { store_.Save(action); }
  void Do(const coordinator::AdmitRank& action);
  void Do(const coordinator::RequestSeed& action);
  void Do(const coordinator::ApplyRound& action);
  void Do(const coordinator::PublishCommit& action);
  void Do(const coordinator::WriteCheckpoint&) {}
  void Do(const coordinator::EndJob& action);
  void Do(const coordinator::ReleasePool&) {}

  void FinishApply(const coordinator::ApplyRound& action);
  void Tick();
  // Runs after the delay, unless the coordinator crashed meanwhile.
  void Later(absl::Duration delay, std::function<void()> run);

  World* world_;
  DurableStore store_;
  std::optional<coordinator::Coordinator> core_;
  int64_t life_ = 0;
  JobOptions submitting_;
  std::map<StreamKey, Stream> streams_;
  Stream opening_;  // Of the RankReady that is being performed.
  std::map<std::pair<std::string, ContributionKey>, Arriving>
      arriving_;  // Whole ones, too, until the commit.
};

}  // namespace longhaul::simulation
