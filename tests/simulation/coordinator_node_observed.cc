// What the checker is told of the coordinator: versions that became durable, and memory.
#include <algorithm>
#include <bit>
#include <memory>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "coordinator/sync/round_plan.h"
#include "tests/simulation/coordinator_life.h"
#include "tests/simulation/coordinator_node.h"

namespace longhaul::simulation {
namespace {

// Without faults every pool here can pull all parameters, run a step and push in this time.
constexpr absl::Duration kEnoughGrace = absl::Seconds(3);

}  // namespace

void CoordinatorNode::Observe() {
  std::erase_if(resident_, [](const Resident& resident) { return resident.store.expired(); });
  RepairEnds();
  for (const std::shared_ptr<coordinator::LiveJob>& job : life_->performer->All()) {
    const auto store = job->fragments ? job->fragments->store() : nullptr;
    if (store == nullptr) continue;
    const bool known = std::any_of(resident_.begin(), resident_.end(),
                                   [&](const Resident& r) { return r.store.lock() == store; });
    if (!known) resident_.push_back({store, job->id(), coordinator::MemoryOf(*job->resolved)});
    for (int f = 0; f < job->fragment_count(); ++f) ObserveFragment(*job->fragments, f);
  }
  int64_t memory = 0;
  for (const Resident& resident : resident_) memory += resident.memory;
  if (memory > world_->memory)
    world_->checker.Violation("the states of jobs take more memory than they may");
}

void CoordinatorNode::ObserveFragment(const coordinator::JobFragments& job, int fragment) {
  const std::shared_ptr<coordinator::SharedStore> shared = job.store();
  const JobStore& store = **shared;
  const absl::StatusOr<CommitRecord> record = store.LastCommit(fragment);
  if (!record.ok()) return world_->checker.Opened(job.id(), fragment, -1);
  world_->checker.Opened(job.id(), fragment, record->round.version);
  if (world_->checker.Knows(job.id(), fragment, record->round.version)) return;
  const std::vector<BlockRange> all = {{0, kWords}};
  const absl::StatusOr<CodedBlocks> outer = store.ReadOuter(fragment, record->round.version, all);
  LH_CHECK(outer.ok(), "one thread reads and applies");
  const auto* values = reinterpret_cast<const float*>(outer->payload.data());
  Commit commit{.version = record->round.version,
                .kind = record->round.kind,
                .pools = record->pools,
                .incarnations = record->incarnations};
  for (const LeftOut& pool : record->outer.left_out)
    commit.left_out.emplace_back(pool.pool, pool.incarnation);
  world_->left_out += static_cast<int>(commit.left_out.size());
  for (int i = 0; i < kWords; ++i) {
    commit.parameters[i] = values[i * kBlockElements];
    // A block of one value stays one.
    for (int64_t at = i * kBlockElements; at < (i + 1) * kBlockElements; ++at) {
      if (std::bit_cast<uint32_t>(values[at]) == std::bit_cast<uint32_t>(commit.parameters[i]))
        continue;
      world_->checker.Violation(absl::StrFormat("2: %s fragment %d version %d has other values",
                                                job.id(), fragment, record->round.version));
    }
  }
  if (!record->evaluator.empty())
    world_->checker.Asks(job.id(), record->round.version, record->evaluator);
  const ResolvedJob& resolved = *life_->performer->Find(job.id())->resolved;
  world_->checker.LeavesOut(job.id(), fragment, commit, resolved.spec.guard(),
                            resolved.spec.sync().quorum().pools());
  const auto view = views_.find({job.id(), fragment});
  if (view != views_.end()) {
    const RoundPlan plan(resolved.schedule, resolved.spec.train().steps(),
                         resolved.spec.sync().final_round());
    const v1::QuorumSpec& quorum = resolved.spec.sync().quorum();
    const bool in_time = !world_->faulty && absl::Seconds(quorum.grace_seconds()) >= kEnoughGrace;
    std::vector<std::string> pools = commit.pools;
    for (const auto& [pool, incarnation] : commit.left_out) pools.push_back(pool);
    world_->checker.Applies(view->second, fragment, commit.version, commit.kind, pools,
                            plan.PushStep(fragment, commit.version), in_time ? 0 : quorum.pools());
  }
  world_->checker.Committed(job.id(), fragment, commit, rules_.at(job.id()));
}

}  // namespace longhaul::simulation
