// A coordinator in virtual time: the product's core, and a shell that begins its works, which take
// modelled times, and sends its notices. What a restart finds is kept as the database and the
// stores keep it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/plan/exchange_forecast.h"
#include "common/simulation/event_loop.h"
#include "coordinator/core/coordinator.h"
#include "worker/session/core/event.h"

namespace longhaul::coordinator {

// The id of its job.
inline constexpr char kSimulatedJob[] = "job";

// Not thread-safe.
class SimulatedCoordinator {
 public:
  struct Options {
    JobOptions job;
    double alpha = 0.5;
    plan::ExchangeSetting exchange;
    absl::Duration lease = absl::Seconds(10);
    int pools_max = 0;
  };
  // What a rank hears on its stream. Messages arrive in the order of the calls.
  using Stream = std::function<void(const session::Event&)>;
  struct Pulled {
    // Set if it was refused.
    std::optional<Refuse> refused;
    int64_t version = -1;
  };

  SimulatedCoordinator(sim::EventLoop* loop, Options options);

  void Start() { Begin({}); }
  // Its only job.
  void Submit() { Step(SubmitJob{kSimulatedJob, options_.job}); }
  // It stands still and forgets what is not stored. It is there again after this time.
  void Crash(absl::Duration back_after);
  bool up() const { return core_ != nullptr; }

  // Calls of a pool. Only while it is up.
  std::optional<Answer> Step(const Event& event);
  void Watch(const std::string& pool, const std::string& incarnation, Stream stream);
  void Unwatch(const std::string& pool) { streams_.erase(pool); }
  // The whole parameters (version -1), or the downlink that made this version.
  Pulled Pull(const std::string& pool, const std::string& incarnation, int fragment,
              int64_t version) const;
  // Called with the pool's incarnation and version for each contribution that a commit took.
  using OnCounted = std::function<void(const std::string& pool, const std::string& incarnation,
                                       int fragment, int64_t version)>;
  void set_on_counted(OnCounted on_counted) { on_counted_ = std::move(on_counted); }

  // Set when the job has ended.
  std::optional<JobState> ended() const { return ended_; }
  std::string fault() const { return fault_; }
  // Rounds with contributions, without the seed; and those without any.
  int64_t commits() const { return commits_; }
  int64_t skipped() const { return skipped_; }
  int64_t contributions() const { return contributions_; }
  int restarts() const { return restarts_; }
  const Options& options() const { return options_; }

 private:
  struct Fragment {
    RecoveredFragment stored;
    RoundKind kind = RoundKind::kSeed;
    // Of the newest commit: incarnations by pool.
    std::unordered_map<std::string, std::string> counted;
    // Those of the round that is being applied.
    std::vector<Contributor> applying;
    bool called = false;
  };
  struct Watcher {
    std::string incarnation;
    Stream stream;
  };

  void Begin(const Recovery& recovery);
  void PassTime();
  // Runs later, unless it crashes before.
  void Later(absl::Duration delay, std::function<void()> run);
  Recovery Stored() const;
  session::Plan PlanFor(const AdmitRank& admitted) const;
  session::Commit CommitFor(const Fragment& fragment, const std::string& pool,
                            const std::string& incarnation) const;

  void Store(const Record& record);
  void Tell(const Notice& notice);
  void Do(const Work& work);
  void Do(const ApplyRound& work);

  sim::EventLoop* const loop_;
  const Options options_;
  OnCounted on_counted_;
  std::unique_ptr<Coordinator> core_;
  int64_t life_ = 0;
  // What is durable.
  RecoveredJob stored_;
  std::map<int, RecoveredPlace> places_;
  std::vector<Fragment> fragments_;
  // What is not.
  std::unordered_map<std::string, Watcher> streams_;
  absl::Time apply_free_ = absl::InfinitePast();

  std::optional<JobState> ended_;
  std::string fault_;
  int64_t commits_ = 0, skipped_ = 0, contributions_ = 0;
  int restarts_ = 0;
};

}  // namespace longhaul::coordinator
