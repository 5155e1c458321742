#include "coordinator/effects/job_progress.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/checked_math.h"
#include "common/wire/data_summary.h"
#include "common/wire/proto_values.h"
#include "coordinator/effects/site_evaluations.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace longhaul::coordinator {
namespace {

using google::protobuf::FieldDescriptor;

// More steps or tokens than any job has. With this bound, sums of what pools report stay within 64
// bits.
constexpr int64_t kCountMax = int64_t{1} << 50;
// How many evaluations that were asked for may come late. A pool has at most a few in work.
constexpr size_t kAskedMax = 1024;
// Of how many steps each site's evaluation is kept. Sites report a step at nearly the same time.
constexpr size_t kSiteStepsKept = 16;

int64_t SaneCount(int64_t value) { return std::clamp<int64_t>(value, 0, kCountMax); }
double Sane(double value) { return std::isfinite(value) && value > 0 ? value : 0; }

// Bounds every number of a report, also in the messages inside. train_loss is not changed: people
// must see a loss that is not finite.
void BoundNumbers(google::protobuf::Message* message) {
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->field(i);
    if (field->is_repeated()) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      BoundNumbers(reflection.MutableMessage(message, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      reflection.SetInt32(message, field, std::max(reflection.GetInt32(*message, field), 0));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      reflection.SetInt64(message, field, SaneCount(reflection.GetInt64(*message, field)));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE &&
               field->name() != "train_loss") {
      reflection.SetDouble(message, field, Sane(reflection.GetDouble(*message, field)));
    }
  }
}

void AddBytes(const v1::InPoolBytes& from, v1::InPoolBytes* to) {
  to->set_pair(to->pair() + from.pair());
  to->set_node(to->node() + from.node());
  to->set_pool(to->pool() + from.pool());
  BoundNumbers(to);
}

void AddSums(const v1::PoolProgress& from, v1::PoolProgress* to) {
  to->set_tokens(SaneCount(to->tokens() + from.tokens()));
  to->set_contributed_tokens(SaneCount(to->contributed_tokens() + from.contributed_tokens()));
  to->set_compute_seconds(to->compute_seconds() + from.compute_seconds());
  to->set_exposed_wait_seconds(to->exposed_wait_seconds() + from.exposed_wait_seconds());
  to->set_eval_seconds(to->eval_seconds() + from.eval_seconds());
  to->set_sync_seconds(to->sync_seconds() + from.sync_seconds());
  to->set_target_tokens(SaneCount(to->target_tokens() + from.target_tokens()));
  to->set_skipped_steps(SaneCount(to->skipped_steps() + from.skipped_steps()));
  to->set_inner_state_losses(SaneCount(to->inner_state_losses() + from.inner_state_losses()));
  to->set_inner_state_failures(SaneCount(to->inner_state_failures() + from.inner_state_failures()));
  AddBytes(from.forward(), to->mutable_forward());
  AddBytes(from.backward(), to->mutable_backward());
  AddBytes(from.gradient(), to->mutable_gradient());
  AddBytes(from.refresh(), to->mutable_refresh());
}

}  // namespace

int64_t PoolHistory::steps() const {
  return SaneCount(earlier.inner_step() + SaneCount(current.inner_step() - start_step));
}

v1::PoolProgress PoolHistory::Total() const {
  v1::PoolProgress total = current;
  AddSums(earlier, &total);
  if (earlier.has_data()) *total.mutable_data() = earlier.data();
  total.set_data_change(earlier.data_change());
  total.set_left_out_rounds(earlier.left_out_rounds());
  return total;
}

v1::PoolProgress JobProgress::Cleaned(v1::PoolProgress progress) {
  // Their size has no bound but the message's, and every report of the job would have them.
  progress.DiscardUnknownFields();
  BoundNumbers(&progress);
  // The coordinator sets the evaluation itself.
  progress.clear_evaluation();
  progress.clear_evaluation_step();
  progress.clear_outer_evaluation();
  progress.clear_outer_evaluation_step();
  progress.clear_data();
  progress.clear_data_change();
  progress.clear_left_out_rounds();
  return progress;
}

void JobProgress::ReportCleaned(const std::string& pool, const std::string& incarnation,
                                int64_t start_step, v1::PoolProgress progress) {
  PoolHistory& history = pools_[pool];
  // If the pool began again, the commit was of its stay before.
  const bool counts = uncounted_.erase(pool) > 0 &&
                      (history.incarnation.empty() || incarnation == history.incarnation);
  if (incarnation != history.incarnation || start_step != history.start_step) {
    const int64_t steps = history.steps();
    AddSums(history.current, &history.earlier);
    history.earlier.set_inner_step(steps);
    history.incarnation = incarnation;
    history.current.clear_contributed_tokens();
  }
  history.start_step = start_step;
  progress.set_contributed_tokens(history.current.contributed_tokens());
  history.current = std::move(progress);
  history.current.set_pool(pool);
  if (counts) history.current.set_contributed_tokens(history.current.tokens());
}

std::string JobProgress::BeginWithData(const std::string& pool, const v1::DataSummary& data,
                                       absl::string_view unit) {
  if (data.tokens().empty()) return "";
  PoolHistory& history = pools_[pool];
  history.current.set_pool(pool);
  std::string change = DifferenceOf(history.earlier.data(), data, unit);
  const std::vector<v1::DataWarning> warnings = NewWarnings(pool, data);
  v1::DataSummary& kept = *history.earlier.mutable_data();
  *kept.mutable_tokens() = data.tokens();
  *kept.mutable_samples() = data.samples();
  kept.set_features(data.features());
  if (!change.empty()) kept.clear_warnings();
  kept.mutable_warnings()->Add(warnings.begin(), warnings.end());
  if (!change.empty()) history.earlier.set_data_change(change);
  return change;
}

std::vector<v1::DataWarning> JobProgress::NewWarnings(const std::string& pool,
                                                      const v1::DataSummary& data) const {
  const auto found = pools_.find(pool);
  v1::DataSummary kept;
  if (found != pools_.end() && DifferenceOf(found->second.earlier.data(), data).empty())
    kept = found->second.earlier.data();
  std::vector<v1::DataWarning> fresh;
  if (data.tokens().empty()) return fresh;
  for (const v1::DataWarning& warning : data.warnings()) {
    const auto is_same = [&](const v1::DataWarning& other) {
      return other.kind() == warning.kind();
    };
    if (std::any_of(kept.warnings().begin(), kept.warnings().end(), is_same) ||
        kept.warnings_size() == kDataWarningsMax)
      continue;
    // Without fields that are not known.
    v1::DataWarning& added = *kept.add_warnings();
    added.set_kind(warning.kind());
    added.set_message(warning.message());
    fresh.push_back(added);
  }
  return fresh;
}

v1::DataSummary JobProgress::DataOf(const std::string& pool) const {
  const auto found = pools_.find(pool);
  if (found == pools_.end()) return {};
  v1::DataSummary data = found->second.earlier.data();
  data.clear_warnings();
  data.clear_features();
  return data;
}

void JobProgress::Contributed(const std::vector<std::string>& pools) {
  for (const std::string& pool : pools) {
    const auto found = pools_.find(pool);
    if (found == pools_.end()) continue;
    found->second.current.set_contributed_tokens(found->second.current.tokens());
  }
}

void JobProgress::CountLeftOut(const std::vector<LeftOut>& contributions) {
  for (const LeftOut& contribution : contributions) {
    v1::PoolProgress& counts = pools_[contribution.pool].earlier;
    counts.set_left_out_rounds(SaneCount(counts.left_out_rounds() + 1));
  }
}

int JobProgress::LeftOutFragments(const std::string& pool) const {
  return static_cast<int>(std::count_if(commits_.begin(), commits_.end(), [&](const auto& commit) {
    return commit.has_value() &&
           std::any_of(commit->outer.left_out.begin(), commit->outer.left_out.end(),
                       [&](const LeftOut& left_out) { return left_out.pool == pool; });
  }));
}

void JobProgress::ContributedAtNextReport(const std::vector<std::string>& pools) {
  uncounted_.insert(pools.begin(), pools.end());
}

bool JobProgress::HasCommits() const {
  return std::any_of(commits_.begin(), commits_.end(),
                     [](const auto& commit) { return commit.has_value(); });
}

int64_t JobProgress::WholeVersion() const {
  if (commits_.empty()) return -1;
  int64_t version = std::numeric_limits<int64_t>::max();
  for (const std::optional<CommitRecord>& commit : commits_)
    version = std::min(version, commit.has_value() ? commit->round.version : -1);
  return version;
}

bool JobProgress::WasEvaluated(const std::string& pool, int64_t version) const {
  if (pool.empty()) return evaluated_.contains(version);
  const auto found = pool_evaluations_.find(pool);
  return found != pool_evaluations_.end() && found->second.version >= version;
}

bool JobProgress::MayEvaluate(const std::string& pool, int64_t version) const {
  if (const auto exact = asked_.find(version); exact != asked_.end()) return exact->second == pool;
  if (version <= asked_unknown_until_) return true;
  return std::any_of(asked_.begin(), asked_.upper_bound(version),
                     [&](const auto& asked) { return asked.second == pool; });
}

void JobProgress::Answered(const std::string& pool, int64_t version) {
  // Also if its loss was not a number, which is no point of the curve: nobody else is asked.
  evaluated_.insert(version);
  std::erase_if(asked_,
                [&](const auto& asked) { return asked.first <= version && asked.second == pool; });
}

void JobProgress::SetCommit(CommitRecord commit) {
  std::optional<CommitRecord>& newest = commits_[commit.round.fragment];
  // The first commit of a fragment is its seed, or the one that a restart found.
  if (!newest.has_value())
    asked_unknown_until_ = std::max(asked_unknown_until_, commit.round.version);
  if (!commit.evaluator.empty()) asked_[commit.round.version] = commit.evaluator;
  if (asked_.size() > kAskedMax) asked_.erase(asked_.begin());
  newest = std::move(commit);
}

bool JobProgress::WasEvaluatedAt(const std::string& site, int64_t version) const {
  const auto found = answered_at_.find(site);
  return found != answered_at_.end() && found->second >= version;
}

void JobProgress::AnsweredAt(const std::string& site, int64_t version) {
  int64_t& newest = answered_at_[site];
  newest = std::max(newest, version);
}

void JobProgress::AddSite(const EvaluationRecord& evaluation) {
  const auto key = std::make_pair(evaluation.step, evaluation.final);
  if (!evaluation.final) AnsweredAt(evaluation.site, evaluation.version);
  EvaluationRecord& newest = newest_of_site_[evaluation.site];
  if (key >= std::make_pair(newest.step, newest.final)) newest = evaluation;
  // A report that comes after so many later steps is not combined any more.
  if (!sites_.contains(key) && losses_.contains(key)) return;
  auto& of_step = sites_[key];
  of_step.emplace(evaluation.site, evaluation);
  const CombinedEvaluation combined = Combine(of_step);
  losses_[key] = combined.loss;
  if (key == losses_.rbegin()->first) metrics_ = combined.over_examples;
  while (sites_.size() > kSiteStepsKept) sites_.erase(sites_.begin());
}

const EvaluationRecord* JobProgress::SiteEvaluation(const std::string& site) const {
  const auto found = newest_of_site_.find(site);
  return found == newest_of_site_.end() ? nullptr : &found->second;
}

void JobProgress::AddEvaluation(const EvaluationRecord& evaluation) {
  if (!evaluation.site.empty()) return AddSite(evaluation);
  if (!evaluation.pool.empty()) {
    PoolEvaluations& of_pool = pool_evaluations_[evaluation.pool];
    if (evaluation.step >= of_pool.newest.step) of_pool.newest = evaluation;
    of_pool.version = std::max(of_pool.version, evaluation.version);
    of_pool.losses.Add(evaluation.step, evaluation.loss);
    return;
  }
  const auto key = std::make_pair(evaluation.step, evaluation.final);
  if (!evaluation.final) evaluated_.insert(evaluation.version);
  if (!losses_.emplace(key, evaluation.loss).second) return;
  if (key == losses_.rbegin()->first) metrics_ = evaluation.metrics;
}

const EvaluationRecord* JobProgress::PoolEvaluation(const std::string& pool) const {
  const auto found = pool_evaluations_.find(pool);
  return found == pool_evaluations_.end() ? nullptr : &found->second.newest;
}

// Evaluations of the outer parameters may come late, and the last step has two. So they are not a
// LossCurve, and are thinned from their end.
void JobProgress::FillEvaluations(v1::JobDetail* detail) const {
  const size_t every = CeilDiv(losses_.size(), LossCurve::kPointsMax);
  size_t later = losses_.size();
  for (const auto& [key, loss] : losses_) {
    if (--later % every != 0) continue;
    v1::LossPoint* const point = detail->add_evaluations();
    point->set_step(key.first);
    point->set_loss(loss);
  }
  for (const auto& [pool, of_pool] : pool_evaluations_)
    of_pool.losses.Fill(pool, detail->add_pool_evaluations());
}

v1::EvalLoss JobProgress::EvaluationLoss() const {
  v1::EvalLoss result;
  if (losses_.empty()) return result;
  double best = losses_.begin()->second;
  for (const auto& [key, loss] : losses_) best = std::min(best, loss);
  result.set_first(losses_.begin()->second);
  result.set_last(losses_.rbegin()->second);
  result.set_best(best);
  result.set_last_step(losses_.rbegin()->first.first);
  result.set_evaluations(static_cast<int64_t>(losses_.size()));
  *result.mutable_metrics() = ToProto(metrics_);
  const auto of_sites = sites_.find(losses_.rbegin()->first);
  if (of_sites == sites_.end()) return result;
  result.set_pools(static_cast<int>(of_sites->second.size()));
  if (result.pools() < 2) return result;
  const CombinedEvaluation combined = Combine(of_sites->second);
  *result.mutable_worst_pool() = ToProto(combined.worst_pool);
  *result.mutable_mean_of_pools() = ToProto(combined.mean_of_pools);
  return result;
}

bool JobProgress::HasFinalEvaluation() const {
  return std::any_of(losses_.begin(), losses_.end(),
                     [](const auto& entry) { return entry.first.second; });
}

void JobProgress::Save(store::v1::JobCounters* counters) const {
  for (const auto& [pool, history] : pools_) {
    store::v1::PoolCounters& saved = *counters->add_pools();
    saved.set_pool(pool);
    saved.set_incarnation(history.incarnation);
    saved.set_start_step(history.start_step);
    *saved.mutable_earlier() = history.earlier;
    *saved.mutable_current() = history.current;
  }
  if (forecast_.has_value()) *counters->mutable_forecast() = *forecast_;
}

void JobProgress::Restore(const store::v1::JobCounters& counters) {
  for (const store::v1::PoolCounters& saved : counters.pools())
    pools_[saved.pool()] = {saved.earlier(), saved.current(), saved.incarnation(),
                            saved.start_step()};
  if (counters.has_forecast()) forecast_ = counters.forecast();
}

std::optional<double> UtilizationOf(const v1::PoolProgress& pool) {
  const double all = pool.compute_seconds() + pool.exposed_wait_seconds() + pool.sync_seconds();
  return all > 0 ? std::optional(pool.compute_seconds() / all) : std::nullopt;
}

store::v1::JobCounters ParseCounters(const std::string& bytes) {
  store::v1::JobCounters counters;
  v1::Job earlier;
  if (counters.ParseFromString(bytes) && (counters.has_wire_bytes() || counters.pools_size() > 0))
    return counters;
  counters.Clear();
  // Of an earlier version: two entries for each pool. In the first, which has sums, `pool` is the
  // incarnation, and `uplink_nmse` the start step.
  if (!earlier.ParseFromString(bytes)) return counters;
  if (earlier.has_wire_bytes()) *counters.mutable_wire_bytes() = earlier.wire_bytes();
  for (int i = 0; i + 1 < earlier.pools_size(); i += 2) {
    store::v1::PoolCounters& pool = *counters.add_pools();
    pool.set_pool(earlier.pools(i + 1).pool());
    pool.set_incarnation(earlier.pools(i).pool());
    pool.set_start_step(static_cast<int64_t>(earlier.pools(i).uplink_nmse()));
    *pool.mutable_earlier() = earlier.pools(i);
    pool.mutable_earlier()->clear_pool();
    pool.mutable_earlier()->clear_uplink_nmse();
    *pool.mutable_current() = earlier.pools(i + 1);
  }
  return counters;
}

}  // namespace longhaul::coordinator
