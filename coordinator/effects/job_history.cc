#include "coordinator/effects/job_history.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/wire/proto_values.h"

namespace longhaul::coordinator {
namespace {

// A job's spec bounds its pools at one time, but not all pools that ever reported. This does.
constexpr size_t kCurvesMax = 4096;

v1::PoolTrace* TraceOf(v1::RoundTrace& round, const std::string& pool) {
  for (v1::PoolTrace& trace : *round.mutable_pools()) {
    if (trace.pool() == pool) return &trace;
  }
  return nullptr;
}

bool HasMerged(v1::RoundTrace& round, const std::string& pool) {
  const v1::PoolTrace* const trace = round.merge_step() > 0 ? TraceOf(round, pool) : nullptr;
  return trace != nullptr && trace->has_merged_at();
}

}  // namespace

void JobHistory::Reported(const v1::PoolProgress& progress, absl::Time now) {
  if (progress.inner_step() > 0 &&
      (curves_.size() < kCurvesMax || curves_.contains(progress.pool()))) {
    curves_[progress.pool()].Add(progress.inner_step(), progress.train_loss());
  }
  // Rounds lie in the order of their merges, so what comes before a marked one is done. With many
  // pools the search in each round takes long.
  auto first = rounds_.end();
  while (first != rounds_.begin() && !HasMerged(*std::prev(first), progress.pool())) --first;
  for (; first != rounds_.end(); ++first) MarkMerged(*first, progress, now);
}

// A pool has made a merge if it has done a step after the merge's step.
void JobHistory::MarkMerged(v1::RoundTrace& round, const v1::PoolProgress& progress,
                            absl::Time now) {
  if (!round.has_committed_at() || round.merge_step() == 0 ||
      progress.inner_step() <= round.merge_step()) {
    return;
  }
  v1::PoolTrace* const trace = TraceOf(round, progress.pool());
  if (trace == nullptr || trace->has_merged_at()) return;
  *trace->mutable_merged_at() = ToProto(now);
  double& waited = waited_[progress.pool()];
  trace->set_waited_seconds(std::max(progress.exposed_wait_seconds() - waited, 0.0));
  waited = progress.exposed_wait_seconds();
}

v1::RoundTrace& JobHistory::RoundOf(const RoundId& id) {
  const auto& [fragment, version, kind] = id;
  // Contributions of different fragments may be complete in another order than their pushes began.
  const int64_t step = schedule_[fragment].MergeStep(version);
  auto at = rounds_.end();
  for (auto round = rounds_.end(); round != rounds_.begin();) {
    --round;
    const int64_t its_step = schedule_[round->fragment()].MergeStep(round->version());
    if (its_step < step) break;
    if (round->fragment() == fragment && round->version() == version) return *round;
    if (its_step > step) at = round;
  }
  if (rounds_.size() >= kRoundsMax) {
    const bool first = at == rounds_.begin();
    rounds_.pop_front();
    if (first) at = rounds_.begin();
  }
  v1::RoundTrace& round = *rounds_.emplace(at);
  round.set_fragment(fragment);
  round.set_version(version);
  round.set_kind(RoundKindName(kind));
  if (kind == RoundKind::kOuter) round.set_merge_step(step);
  return round;
}

void JobHistory::Pushed(const RoundId& id, const std::string& pool, absl::Time now) {
  v1::RoundTrace& round = RoundOf(id);
  if (TraceOf(round, pool) != nullptr) return;
  v1::PoolTrace* const trace = round.add_pools();
  trace->set_pool(pool);
  *trace->mutable_pushed_at() = ToProto(now);
}

void JobHistory::Committed(const RoundId& id, absl::Time now) {
  v1::RoundTrace& round = RoundOf(id);
  round.set_kind(RoundKindName(id.kind));
  *round.mutable_committed_at() = ToProto(now);
}

void JobHistory::Fill(v1::JobDetail* detail) const {
  for (const auto& [pool, curve] : curves_) curve.Fill(pool, detail->add_curves());
  for (const v1::RoundTrace& round : rounds_) *detail->add_rounds() = round;
}

}  // namespace longhaul::coordinator
