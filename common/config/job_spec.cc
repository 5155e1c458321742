#include "common/config/job_spec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/config/defaults.h"
#include "common/config/model_kinds.h"
#include "common/config/validate.h"
#include "common/config/violation_list.h"

namespace longhaul {
namespace {

// Errors of the layout begin with the field's name: "heads: dim 96 is not ...".
void AddLayoutError(absl::string_view parent, const absl::Status& status,
                    ViolationList& violations) {
  const absl::string_view message = status.message();
  const size_t colon = message.find(": ");
  if (colon == absl::string_view::npos) {
    violations.Invalid(std::string(parent), std::string(message));
  } else {
    violations.Invalid(absl::StrCat(parent, ".", message.substr(0, colon)),
                       std::string(message.substr(colon + 2)));
  }
}

void LayOut(ResolvedJob& job, ViolationList& violations) {
  const ModelKind& kind = *ModelKindOf(job.spec.model());  // A spec without one was refused.
  absl::StatusOr<ModelLayout> layout = kind.lay_out(job.spec.model());
  if (!layout.ok()) {
    AddLayoutError(kind.field, layout.status(), violations);
    return;
  }
  job.model = *std::move(layout);
}

void Cut(ResolvedJob& job, ViolationList& violations) {
  const v1::FragmentsSpec& spec = job.spec.sync().fragments();
  FragmentOptions options{.rule = FragmentRule::kBalanced, .count = spec.balanced()};
  if (spec.has_layers()) {
    options.count = spec.layers();
    options.rule =
        spec.order() == v1::SEQUENTIAL ? FragmentRule::kSequential : FragmentRule::kStrided;
  }
  absl::StatusOr<std::vector<FragmentLayout>> fragments = CutFragments(job.model, options);
  if (!fragments.ok()) {
    AddLayoutError("sync.fragments", fragments.status(), violations);
    return;
  }
  job.fragments = *std::move(fragments);
}

void Schedule(ResolvedJob& job) {
  job.schedule = MakeSchedule({.fragments = static_cast<int>(job.fragments.size()),
                               .h = job.spec.sync().h(),
                               .tau = job.spec.sync().tau(),
                               .steps = job.spec.train().steps()});
}

void WarnOfMissingCycle(ResolvedJob& job) {
  int64_t cycle = 0;
  for (const FragmentSchedule& fragment : job.schedule) {
    cycle = std::max(cycle, fragment.MergeStep(1));
  }
  if (job.spec.train().steps() >= cycle) return;
  job.warnings.push_back(
      absl::StrFormat("train.steps: %d end before every fragment had a round (step %d); lower "
                      "sync.h or train longer%s",
                      job.spec.train().steps(), cycle,
                      job.spec.sync().final_round()
                          ? ""
                          : "; sync.final_round is false, so the job ends without a checkpoint"));
}

// Whether the model's own fields are right. That is enough to lay the model out, so errors of the
// layout can be reported together with errors of other fields.
bool HasModel(const ViolationList& violations) {
  return std::none_of(violations.all().begin(), violations.all().end(),
                      [](const SpecViolation& v) { return v.field.rfind("model", 0) == 0; });
}

}  // namespace

absl::StatusOr<PartitionMap> PartitionOf(const v1::PartitionSpec& spec) {
  if (!spec.has_map()) return PartitionPreset(spec.preset());
  const auto level = [](v1::SplitLevel named) {
    return named == v1::PAIR   ? Level::kPair
           : named == v1::NODE ? Level::kNode
           : named == v1::POOL ? Level::kPool
                               : Level::kRank;
  };
  const auto spread = [&](const auto& split) {
    return Spread{.level = level(split.level()), .bits = split.bits()};
  };
  PartitionMap map{.weights = spread(spec.map().weights()),
                   .gradients = spread(spec.map().gradients()),
                   .error_feedback = spec.map().gradients().error_feedback(),
                   .error_beta = spec.map().gradients().error_beta(),
                   .error_reset_steps = spec.map().gradients().error_reset_steps(),
                   .optimizer = level(spec.map().optimizer())};
  if (spec.map().has_secondary()) map.secondary = spread(spec.map().secondary());
  return map;
}

absl::StatusOr<ResolvedJob> ResolveJobSpec(const v1::JobSpec& spec,
                                           std::vector<SpecViolation>* violations) {
  ResolvedJob job{.spec = spec};
  FillDefaults(job.spec);
  ViolationList found;
  RequireKnown(job.spec, found);
  ValidateTraining(job.spec, found);
  ValidateExchange(job.spec, found);
  if (HasModel(found)) LayOut(job, found);
  if (HasModel(found)) Cut(job, found);
  if (violations != nullptr) *violations = found.all();
  if (!found.empty()) return ViolationsToStatus(found.all());
  Schedule(job);
  job.warnings = WarningsOf(job.spec, static_cast<int>(job.fragments.size()));
  WarnOfMissingCycle(job);
  return job;
}

v1::Job UnstoredJob(const ResolvedJob& resolved) {
  v1::Job job = ReportWithoutSpec(resolved);
  *job.mutable_spec() = resolved.spec;
  return job;
}

v1::Job ReportWithoutSpec(const ResolvedJob& resolved) {
  v1::Job job;
  job.set_state(v1::PENDING);
  for (size_t f = 0; f < resolved.fragments.size(); ++f) {
    v1::FragmentStatus* fragment = job.add_fragments();
    fragment->set_fragment(static_cast<int32_t>(f));
    fragment->set_name(resolved.fragments[f].name);
    fragment->set_elements(resolved.fragments[f].elements);
  }
  job.set_parameters(resolved.model.elements());
  if (const ModelKind* const kind = ModelKindOf(resolved.spec.model()); kind != nullptr)
    job.set_unit_name(kind->unit_name);
  job.mutable_warnings()->Assign(resolved.warnings.begin(), resolved.warnings.end());
  job.mutable_warnings()->Add(resolved.beginning_warnings.begin(),
                              resolved.beginning_warnings.end());
  return job;
}

}  // namespace longhaul
