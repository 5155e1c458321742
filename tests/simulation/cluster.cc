#include "tests/simulation/cluster.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/simulation/coordinator_node.h"
#include "tests/simulation/pool.h"
#include "tests/simulation/users.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::simulation {
namespace {

// In the coordinator's memory. The largest fragment takes as much once more, and 4 bytes for each
// element of its downlink.
constexpr int64_t kBytesPerUnit = 12 * kWords * kBlockElements;
constexpr int64_t kBytesOfOneUnit = 2 * kBytesPerUnit + kBytesPerUnit / 3;
constexpr absl::Duration kFaultsEnd = absl::Seconds(25), kUsersEnd = absl::Seconds(50),
                         kRunEnd = absl::Minutes(15);

class Cluster {
 public:
  explicit Cluster(const RunOptions& options)
      : world_(options.seed, options.mutation, options.trace),
        database_(options.seed % 32 == 13 ? std::make_unique<TempDir>() : nullptr),
        coordinator_(&world_, database_ ? database_->Join("coordinator.db") : kInMemory),
        users_(&world_, &coordinator_) {
    // No random number, so that other seeds stay what they were.
    if (options.seed % 16 == 5) world_.ended_job_keep = absl::Seconds(15);
    damages_ = options.seed % 8 == 3;
    loses_database_ = options.seed % 16 == 9;
    gathers_ = options.seed % 32 == 15;
    world_.uploads = options.seed % 3 == 1;
    // Any job fits alone, two only if both are small.
    if (options.seed % 4 == 2) world_.memory = world_.memory_later = 2 * kBytesOfOneUnit;
    // All fit before a restart.
    if (options.seed % 8 == 2) world_.memory = std::numeric_limits<int64_t>::max();
  }

  RunResult Run();

 private:
  int64_t Pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(world_.random.Below(high - low + 1));
  }
  absl::Time Sometime() {
    return world_.loop.now() + world_.Between(absl::ZeroDuration(), kFaultsEnd);
  }

  void Build();
  v1::JobSpec MakeJob(const std::string& name);
  // guard.outer, and a pool that it leaves out.
  void PlanGuard(v1::JobSpec& spec);
  void PlanUsers();
  void PlanUsersOf(const v1::JobSpec& job);
  void PauseFor(const std::string& name, absl::Duration lasts);
  // A pause; then the pool that is ready first crashes, often once it has contributed; and another
  // pause, often while the other pool is not ready.
  void PlanGathering(const std::string& name);
  void PlanFaults();
  void PlanFault();
  std::function<void()> NodeFault(Pool* pool, AgentNode* agent, absl::Duration lasts);
  // A while without these links.
  void Part(const std::vector<int>& ends, int machine, absl::Duration lasts);
  void RepairAll();
  bool Settled();
  void Summarize(RunResult& result) const;

  World world_;
  // If its database is a file.
  const std::unique_ptr<TempDir> database_;
  CoordinatorNode coordinator_;
  Users users_;
  std::vector<std::unique_ptr<Pool>> pools_;
  int machines_ = 0;
  bool faulty_ = true, damages_ = false, gone_for_good_ = false;
  bool loses_database_ = false;
  // A quorum job of two pools gathers them after a pause, and one takes long to be ready.
  bool gathers_ = false;
  int crashes_ = 0;
  std::string shape_;
};

RunResult Cluster::Run() {
  Build();
  PlanUsers();
  if (faulty_) PlanFaults();
  world_.loop.At(absl::UnixEpoch() + kFaultsEnd, [this] { RepairAll(); });
  const absl::Time end = absl::UnixEpoch() + kRunEnd;
  while (!world_.checker.violation().has_value() && !Settled() && world_.loop.RunOne(end)) {
  }
  if (!world_.checker.violation().has_value()) {
    world_.checker.Finally(coordinator_.meta(), coordinator_.disk(), faulty_);
    for (const auto& pool : pools_) world_.groups.Whole(pool->name(), pool->whole());
  }
  RunResult result;
  Summarize(result);
  return result;
}

void Cluster::Build() {
  faulty_ = !world_.Chance(0.1);
  world_.faulty = world_.faults = faulty_;
  if (faulty_ && world_.Chance(0.5)) world_.coordinator_crash_chance = 0.003;
  world_.bad_reads = faulty_ && world_.Chance(damages_ ? 0.6 : 0.3);
  if (world_.bad_reads && world_.Chance(0.5)) world_.folders_away_until = Sometime();
  const bool lies = faulty_ && world_.Chance(0.3);
  const int64_t count = gathers_ ? 2 : Pick(2, 5);
  for (int i = 0; i < count; ++i) {
    PoolOptions pool{.name = std::string(1, static_cast<char>('a' + i))};
    if (world_.Chance(0.3)) pool.nodes = world_.Chance(0.6) ? 2 : 3;
    pool.spare = faulty_ && pool.nodes > 1 && world_.Chance(0.3);
    pool.numbers = static_cast<PoolOptions::Numbers>(Pick(0, 2));
    pool.first_machine = machines_ + 1;
    pool.misconfigured = faulty_ && i > 0 && world_.Chance(0.15);
    if (pool.misconfigured) world_.misconfigured.insert(pool.name);
    if (lies && i == 1) world_.liars.insert(pool.name);
    pool.earlier = world_.Chance(0.15);
    if (gathers_ && i == 1) pool.prepare_more = world_.Between(absl::Seconds(5), absl::Seconds(7));
    pool.step_takes = world_.Between(absl::Milliseconds(40), absl::Milliseconds(200));
    sim::LinkOptions link{.delay_min = absl::Milliseconds(Pick(1, 40))};
    link.delay_mean = link.delay_min + absl::Milliseconds(Pick(0, 60));
    if (faulty_ && world_.Chance(0.4)) link.break_probability = 0.01;
    if (world_.Chance(0.3)) link.bytes_per_second = 20000;
    pools_.push_back(std::make_unique<Pool>(&world_, &coordinator_, pool));
    absl::StrAppend(&shape_, pools_.back()->Describe(), " ");
    for (AgentNode* agent : pools_.back()->agents()) {
      machines_ = agent->machine();
      world_.network.SetLink(kCoordinatorNode, machines_, link);
      const bool late = faulty_ && world_.Chance(0.4);
      world_.loop.At(late ? Sometime() : world_.loop.now() + absl::Milliseconds(10 * machines_),
                     [agent] { agent->Start(); });
    }
  }
  coordinator_.Start();
}

v1::JobSpec Cluster::MakeJob(const std::string& name) {
  v1::JobSpec spec;
  spec.set_name(name);
  spec.mutable_model()->mutable_synthetic()->set_units(static_cast<int>(Pick(1, 3)));
  spec.mutable_model()->mutable_synthetic()->set_elements(kWords * kBlockElements);
  v1::SyncSpec& sync = *spec.mutable_sync();
  sync.set_h(Pick(2, 8));
  sync.set_tau(Pick(0, sync.h() - 1));
  spec.mutable_train()->set_steps(Pick(6, 40));
  sync.mutable_up()->set_codec(v1::FP32);
  sync.mutable_down()->set_codec(v1::FP32);
  sync.mutable_outer()->set_lr(0.5);
  sync.mutable_outer()->set_momentum(world_.Chance(0.5) ? 0.5 : 0);
  spec.mutable_pools()->set_min(static_cast<int>(Pick(gathers_ ? 2 : 1, 2)));
  if (world_.Chance(0.2))
    spec.mutable_pools()->set_max(static_cast<int>(Pick(spec.pools().min(), 3)));
  sync.set_final_round(!world_.Chance(0.15));
  spec.mutable_evaluation()->set_every_cycles(world_.Chance(0.3) ? -1 : Pick(1, 2));
  spec.mutable_checkpoint()->set_every_cycles(Pick(-1, 2));
  spec.mutable_checkpoint()->set_keep(world_.Chance(0.7) ? kKeepAll : 1);
  if (gathers_ || world_.Chance(0.5)) {
    sync.set_mode(v1::QUORUM);
    sync.mutable_quorum()->set_pools(gathers_ ? 1 : static_cast<int>(Pick(1, spec.pools().min())));
    sync.mutable_quorum()->set_grace_seconds(static_cast<int>(Pick(0, 3)));
  }
  if (world_.plans.Uniform() < 0.15) {
    const auto pick = [this](int low, int high) {
      return low + static_cast<int>(world_.plans.Below(high - low + 1));
    };
    world_.diverges[name] = pick(1, 4);
    spec.mutable_guard()->set_after_seconds(pick(1, 4));
    spec.mutable_guard()->set_on_divergence(static_cast<v1::DivergenceAction>(pick(1, 3)));
    world_.checker.MayDiverge(name, spec.guard().on_divergence());
    absl::StrAppendFormat(&shape_, "| %s diverges at version %d ", name, world_.diverges[name]);
  }
  PlanGuard(spec);
  absl::StrAppendFormat(
      &shape_, "| %s: %d fragments h=%d tau=%d steps=%d min=%d max=%d%s%s ", name,
      spec.model().synthetic().units(), sync.h(), sync.tau(), spec.train().steps(),
      spec.pools().min(), spec.pools().max(), sync.final_round() ? "" : " no final round",
      sync.has_quorum() ? absl::StrFormat(" quorum=%d grace=%ds", sync.quorum().pools(),
                                          sync.quorum().grace_seconds())
                        : "");
  return spec;
}

void Cluster::PlanGuard(v1::JobSpec& spec) {
  if (world_.guards.Uniform() >= 0.2 || spec.pools().max() == 1) return;
  const auto pick = [this](int low, int high) {
    return low + static_cast<int>(world_.guards.Below(high - low + 1));
  };
  v1::GuardSpec& guard = *spec.mutable_guard();
  guard.set_outer(v1::LEAVE_OUT);
  guard.set_outer_norm(20);
  // What pools train here has no direction.
  guard.set_outer_cosine(-1);
  guard.set_outer_rounds(pick(1, 3));
  const std::string& pool = pools_[pick(0, static_cast<int>(pools_.size()) - 1)]->name();
  world_.wild[spec.name()] = {.pool = pool, .from = pick(1, 6)};
  absl::StrAppendFormat(&shape_, "| %s is wild in %s from version %d ", pool, spec.name(),
                        world_.wild[spec.name()].from);
}

void Cluster::PlanUsers() {
  const int64_t jobs = world_.Chance(0.3) ? 2 : 1;
  for (int64_t i = 0; i < jobs; ++i) {
    v1::JobSpec job = MakeJob(absl::StrCat("job", i));
    // Damage may find such a job before it is seeded.
    if (world_.Chance(damages_ ? 0.6 : 0.2)) {
      // The coordinator's node makes the folder.
      absl::StrAppend(&shape_, "| ", job.name(), " begins with a folder ");
      if (world_.uploads) {
        job.mutable_init()->set_upload(std::string(64, '0'));
      } else {
        job.mutable_init()->set_folder("made-at-submit");
      }
    }
    const absl::Time when =
        i == 0 ? world_.loop.now() + absl::Milliseconds(Pick(0, 2000)) : Sometime();
    world_.loop.At(when, [this, job] { users_.Submit(job); });
    world_.loop.At(when, [this, job] { PlanUsersOf(job); });
  }
}

// What users want of a job that is being submitted.
void Cluster::PlanUsersOf(const v1::JobSpec& job) {
  const std::string& name = job.name();
  const auto sometime = [this] { return world_.Between(absl::ZeroDuration(), kFaultsEnd); };
  if (world_.Chance(0.3)) {
    for (int64_t asks = Pick(1, 4); asks > 0; --asks)
      world_.loop.After(sometime(), [this, name] { users_.AskCheckpoint(name); });
  }
  if (gathers_ && faulty_) return PlanGathering(name);
  if (world_.Chance(0.1)) world_.loop.After(sometime(), [this, name] { users_.Cancel(name); });
  if (world_.Chance(0.05))
    return world_.loop.After(sometime(), [this, name] { users_.Pause(name); });
  if (world_.Chance(0.3)) {
    for (int64_t pauses = Pick(1, 3); pauses > 0; --pauses) {
      const absl::Duration lasts = world_.Between(absl::ZeroDuration(), absl::Seconds(15));
      world_.loop.After(sometime(), [this, name, lasts] { PauseFor(name, lasts); });
    }
  }
  // It may rest paused, without a checkpoint.
  if (world_.diverges.contains(name)) return;
  if (world_.Chance(0.2)) {
    v1::JobSpec child = job;
    child.set_name(absl::StrCat(name, "child"));
    child.mutable_init()->set_checkpoint(name);
    absl::StrAppend(&shape_, "| ", child.name(), " ");
    world_.loop.After(sometime(), [this, child] { users_.Submit(child); });
  }
  if (!world_.Chance(0.2)) return;
  const bool again = world_.Chance(0.5);
  world_.loop.After(sometime(), [this, job, again] {
    users_.Delete(job.name(), [this, job, again] {
      if (again) users_.Submit(job);
    });
  });
}

void Cluster::PauseFor(const std::string& name, absl::Duration lasts) {
  users_.Pause(name, [this, name, lasts] {
    world_.loop.After(lasts, [this, name, lasts] {
      users_.Resume(name);
      // Often again, before all its pools are ready; then perhaps for good.
      if (!world_.faults || !world_.Chance(0.4)) return;
      world_.loop.After(world_.Between(absl::ZeroDuration(), absl::Seconds(3)),
                        [this, name, lasts, stays = world_.Chance(0.5)] {
                          stays ? users_.Pause(name) : PauseFor(name, lasts);
                        });
    });
  });
}

void Cluster::PlanGathering(const std::string& name) {
  const auto between = [this](int low, int high) {
    return world_.Between(absl::Seconds(low), absl::Seconds(high));
  };
  world_.loop.After(between(2, 10), [this, name, between] {
    users_.Pause(name, [this, name, between] {
      world_.loop.After(between(2, 6), [this, name, between] {
        users_.Resume(name);
        const absl::Duration ends = between(1, 4);
        world_.loop.After(ends, [this, between] {
          if (world_.Chance(0.5)) return pools_[0]->CrashAll(between(4, 10));
          for (AgentNode* agent : pools_[0]->agents()) agent->Drain();
        });
        world_.loop.After(ends + between(0, 4), [this, name, stays = world_.Chance(0.5)] {
          stays ? users_.Pause(name) : PauseFor(name, absl::Seconds(5));
        });
      });
    });
  });
}

void Cluster::PlanFaults() {
  const int64_t count = Pick(1, 12);
  for (int64_t i = 0; i < count; ++i) PlanFault();
  for (int64_t i = damages_ ? Pick(1, 3) : 0; i > 0; --i)
    world_.loop.At(Sometime(), [this] { coordinator_.CrashWithDamage(); });
  if (loses_database_) world_.loop.At(Sometime(), [this] { coordinator_.CrashAndAdopt(); });
  for (int64_t i = database_ ? Pick(1, 3) : 0; i > 0; --i)
    world_.loop.At(Sometime(), [this] { coordinator_.StartAnother(); });
  if (!world_.Chance(0.3)) return;
  const absl::Duration lasts = world_.Between(absl::Milliseconds(100), 4 * world_.lease);
  world_.loop.At(Sometime(), [this, lasts] {
    world_.Trace("coordinator", "its disk is full");
    world_.disk_full = true;
    world_.loop.After(lasts, [this] { world_.disk_full = false; });
  });
}

void Cluster::PlanFault() {
  Pool* pool = pools_[Pick(0, pools_.size() - 1)].get();
  AgentNode* agent = pool->agents()[Pick(0, pool->agents().size() - 1)];
  const absl::Duration lasts = world_.Between(absl::Milliseconds(100), 3 * world_.lease);
  // Often a rank that stands still does so until it is ended.
  const absl::Duration stands = world_.Chance(0.3) ? absl::Hours(1) : lasts;
  if (pool->several() && world_.Chance(0.3))
    return world_.loop.At(Sometime(), NodeFault(pool, agent, lasts));
  std::function<void()> fault;
  switch (Pick(0, 12)) {
    case 0:
    case 1:
      fault = [agent] { agent->BreakConnection(); };
      break;
    case 2:
      fault = [this] {
        ++crashes_;
        coordinator_.Crash();
      };
      break;
    case 3:
      fault = [this, agent, lasts] {
        agent->Crash();
        world_.loop.After(lasts, [agent] { agent->Start(); });
      };
      break;
    case 4:
      fault = [this, agent, lasts] { Part({kCoordinatorNode}, agent->machine(), lasts); };
      break;
    case 5:
      fault = [this, pool, lasts] {
        for (const auto& other : pools_) {
          if (other.get() != pool) other->CrashAll(lasts);
        }
      };
      break;
    case 6:
      fault = [agent] { agent->Drain(); };
      break;
    case 7:
      fault = [agent] { agent->LoseRank(); };
      break;
    case 8:
      fault = [agent, stands] { agent->StandRankStill(stands); };
      break;
    case 9:
      fault = [agent, stands] { agent->DawdleRank(stands); };
      break;
    case 10:
      fault = [agent, lasts] { agent->StandAgentStill(lasts); };
      break;
    case 11:
      fault = [agent, lasts] { agent->StandStill(lasts); };
      break;
    default:
      // Two pools stay: enough for every job.
      if (gone_for_good_ || pools_.size() < 3) return;
      gone_for_good_ = true;
      fault = [pool] { pool->LeaveForGood(); };
  }
  world_.loop.At(Sometime(), std::move(fault));
}

// What only a pool of several machines has.
std::function<void()> Cluster::NodeFault(Pool* pool, AgentNode* agent, absl::Duration lasts) {
  const bool at_once = world_.Chance(0.3);
  switch (Pick(0, 3)) {
    case 0:
      return [this, pool, agent, lasts, at_once] {
        Part({pool->OtherThan(agent)->machine()}, agent->machine(),
             at_once ? absl::ZeroDuration() : lasts);
      };
    case 1:
      return [this, pool, agent, lasts] {
        std::vector<int> all = {kCoordinatorNode};
        for (AgentNode* other : pool->agents()) {
          if (other != agent) all.push_back(other->machine());
        }
        Part(all, agent->machine(), lasts);
      };
    case 2:
      return [this, agent, lasts, at_once] {
        agent->Crash(/*silently=*/true);
        world_.loop.After(at_once ? absl::ZeroDuration() : lasts, [agent] { agent->Start(); });
      };
    default:
      return [pool, lasts] { pool->CrashAll(lasts); };
  }
}

void Cluster::Part(const std::vector<int>& ends, int machine, absl::Duration lasts) {
  for (int end : ends) {
    world_.Trace("network", absl::StrCat("machine ", machine, " cannot reach ", end));
    world_.network.Partition(end, machine);
    world_.loop.After(lasts, [this, end, machine] { world_.network.Heal(end, machine); });
  }
}

void Cluster::RepairAll() {
  world_.Trace("cluster", "the faults are over");
  world_.faults = world_.disk_full = false;
  for (int machine = 1; machine <= machines_; ++machine) {
    for (int other = 0; other < machine; ++other) world_.network.Heal(other, machine);
    world_.network.SetLink(
        kCoordinatorNode, machine,
        {.delay_min = absl::Milliseconds(5), .delay_mean = absl::Milliseconds(10)});
  }
  std::vector<std::string> repaired;
  for (const auto& [job, file] : world_.damage.files()) {
    if (world_.Chance(0.6)) {
      repaired.push_back(job);
    } else {
      world_.checker.StaysDamaged(job);
      users_.Cancel(job);
    }
  }
  if (!repaired.empty()) coordinator_.CrashAndRepair(repaired);
}

bool Cluster::Settled() {
  // Until then users begin something.
  if (world_.loop.now() < absl::UnixEpoch() + kUsersEnd) return false;
  return users_.done() && world_.checker.Settled(coordinator_.meta(), coordinator_.disk()) &&
         std::all_of(pools_.begin(), pools_.end(), [](const auto& pool) { return pool->whole(); });
}

void Cluster::Summarize(RunResult& result) const {
  result.violation = world_.checker.violation();
  result.events = world_.loop.events_run();
  result.messages = world_.network.messages_sent();
  result.crashes = crashes_;
  result.quarantined = world_.quarantined;
  result.struck = world_.struck;
  result.left_out = world_.left_out;
  result.summary = shape_;
  const auto keys = coordinator_.meta().ListKeys();
  for (const JobKey& key : *keys) {
    const JobState state = key.state;
    absl::StrAppend(&result.summary, "\n  ", key.id, " ", JobStateName(state));
    result.jobs_completed += state == JobState::kCompleted;
  }
  result.commits = world_.checker.commits();
  for (const auto& pool : pools_) {
    for (const AgentNode* agent : pool->agents())
      absl::StrAppend(&result.summary, "\n  ", agent->Describe());
  }
}

}  // namespace

RunResult RunCluster(const RunOptions& options) { return Cluster(options).Run(); }

}  // namespace longhaul::simulation
