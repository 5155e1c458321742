#include "coordinator/effects/job_tracks.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/track/pool_scalars.h"
#include "coordinator/effects/site_evaluations.h"
#include "coordinator/store/data_folder.h"
#include "coordinator/store/job_folder.h"
#include "google/protobuf/util/json_util.h"

namespace longhaul::coordinator {
namespace {

constexpr absl::Duration kPoolsEach = absl::Seconds(2);

std::string SpecText(const v1::JobSpec& spec) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(spec, &text, options);
  return text;
}

int64_t StepOf(const LiveJob& job, const CommitRecord& commit) {
  switch (commit.round.kind) {
    case RoundKind::kSeed:
      return 0;
    case RoundKind::kFinal:
      return job.resolved->spec.train().steps();
    default:
      return job.resolved->schedule[commit.round.fragment].PushStep(commit.round.version);
  }
}

}  // namespace

std::string JobTracks::Folder(const LiveJob& job, const std::string& run) const {
  return JoinPath(TrackFolder(JobFolder(data_dir_, job.id())), run);
}

void JobTracks::Committed(const LiveJob& job, const CommitRecord& commit, absl::Time now) {
  if (!job.resolved.has_value()) return;
  const std::string folder = Folder(job, "outer");
  // The seed is the first commit. A text that the file has already is not written again.
  if (commit.round.kind == RoundKind::kSeed)
    tracker_->AddText(folder, now, "spec", SpecText(job.resolved->spec));
  const std::string fragment = absl::StrCat("/fragment_", commit.round.fragment);
  TrackedStep step{.step = StepOf(job, commit), .time = now};
  step.scalars = {{absl::StrCat("outer_parameter_norm", fragment), commit.outer_parameter_norm}};
  if (commit.round.kind == RoundKind::kOuter || commit.round.kind == RoundKind::kFinal) {
    step.scalars.push_back(
        {absl::StrCat("outer_gradient_norm", fragment), commit.outer_gradient_norm});
    step.scalars.push_back({absl::StrCat("downlink_nmse", fragment), commit.downlink_nmse});
    step.scalars.push_back(
        {absl::StrCat("contributing_pools", fragment), static_cast<double>(commit.pools.size())});
  }
  if (commit.contribution_cosine.has_value()) {
    step.scalars.push_back(
        {absl::StrCat("outer_gradient_cosine", fragment), *commit.contribution_cosine});
  }
  const WireBytes up = job.fragments->bytes_up().Value(),
                  down = job.fragments->bytes_down().Value();
  step.scalars.push_back({"bytes/up", static_cast<double>(up.total)});
  step.scalars.push_back({"bytes/down", static_cast<double>(down.total)});
  tracker_->Add(folder, std::move(step));
}

void JobTracks::Evaluated(const LiveJob& job, const EvaluationRecord& evaluation, absl::Time now) {
  TrackedStep step{.step = evaluation.step, .time = now};
  if (!evaluation.site.empty()) {
    for (const NamedValue& metric : evaluation.metrics)
      step.scalars.push_back({absl::StrCat("outer/", metric.name), metric.value});
    tracker_->Add(Folder(job, absl::StrCat("pool-", evaluation.site)), std::move(step));
    return AddCombined(job, /*all=*/false, now);
  }
  step.scalars = EvaluationScalars(evaluation.loss, evaluation.metrics, evaluation.final);
  const std::string& pool = evaluation.pool;
  tracker_->Add(Folder(job, pool.empty() ? "outer" : absl::StrCat("pool-", pool)), std::move(step));
}

void JobTracks::Progressed(const LiveJob& job, const std::string& pool, absl::Time now) {
  const PoolHistory& history = job.progress.pools().at(pool);
  if (history.current.inner_step() < 1) return;
  tracker_->AddSometimes(Folder(job, absl::StrCat("pool-", pool)),
                         absl::StrCat(history.incarnation, " ", history.start_step), kPoolsEach,
                         {.step = history.current.inner_step(),
                          .time = now,
                          .scalars = ProgressScalars(history.Total())});
}

void JobTracks::AddCombined(const LiveJob& job, bool all, absl::Time now) {
  size_t pools = 1;
  for (int f = 0; f < job.fragment_count(); ++f) {
    if (const std::optional<CommitRecord>& commit = job.progress.commit(f))
      pools = std::max(pools, commit->pools.size());
  }
  const JobProgress::Sites& sites = job.progress.sites();
  for (const auto& [key, of_sites] : sites) {
    if (!all && of_sites.size() < pools && key == sites.rbegin()->first) break;
    const CombinedEvaluation combined = Combine(of_sites);
    TrackedStep step{.step = key.first, .time = now};
    step.scalars = EvaluationScalars(combined.loss, combined.over_examples, key.second);
    const auto add = [&](absl::string_view run, const std::vector<NamedValue>& metrics) {
      for (const NamedValue& metric : metrics)
        step.scalars.push_back({absl::StrCat(run, "/", metric.name), metric.value});
    };
    if (of_sites.size() > 1) {
      add("eval_worst_pool", combined.worst_pool);
      add("eval_mean_of_pools", combined.mean_of_pools);
    }
    tracker_->Add(Folder(job, "outer"), std::move(step));
  }
}

void JobTracks::Ended(const LiveJob& job, absl::Time now) {
  AddCombined(job, /*all=*/true, now);
  tracker_->Close(Folder(job, ""));
}

}  // namespace longhaul::coordinator
