#include "common/plan/job/forecast_check.h"

#include <cmath>
#include <iterator>
#include <string>

#include "absl/strings/str_format.h"

namespace longhaul::plan {
namespace {

// A term is wrong if it is off by more than this part of a step.
constexpr double kWrong = 0.1;

void Add(const char* name, double forecast, v1::ForecastCheck& check) {
  v1::ForecastTerm& term = *check.add_terms();
  term.set_name(name);
  term.set_forecast(forecast);
}

void SetMeasured(const char* name, double measured, v1::ForecastCheck& check) {
  for (v1::ForecastTerm& term : *check.mutable_terms()) {
    if (term.name() == name && std::isfinite(measured)) term.set_measured(measured);
  }
}

double TokensOfStep(const ResolvedJob& job) {
  return static_cast<double>(job.spec.train().batch()) *
         static_cast<double>(job.spec.model().transformer().context());
}

// What each of the terms of a step means, and what to do if it is longer than was forecast.
struct StepTerm {
  const char* name;
  const char* what;
  const char* if_longer;
};
constexpr StepTerm kStepTerms[] = {
    {kComputeTerm, "computing",
     "pools were slower than assumed: plan again with tokens_per_second of this job"},
    {kCopyingTerm, "copying, coding and merging",
     "it shares cores or memory with the training more than assumed"},
    {kWaitTerm, "waiting for commits",
     "links, the coordinator or other pools were slower than assumed"},
    {kEvaluationTerm, "evaluating",
     "an evaluation took longer than a third of the steps with as many batches"}};

// The term of a step that is off by most, if that is much of a step.
void FindWrong(v1::ForecastCheck& check) {
  double step = 0, most = 0;
  const StepTerm* wrong = nullptr;
  for (const StepTerm& kind : kStepTerms) {
    const v1::ForecastTerm* const term = TermOf(check, kind.name);
    // An earlier version did not forecast all of them.
    if (term == nullptr) continue;
    if (!term->has_measured()) return;
    step += term->measured();
    const double off = std::abs(term->measured() - term->forecast());
    if (off <= most) continue;
    most = off;
    wrong = &kind;
  }
  if (wrong == nullptr || most <= kWrong * step) return;
  const v1::ForecastTerm& term = *TermOf(check, wrong->name);
  const bool longer = term.measured() > term.forecast();
  check.set_wrong(wrong->name);
  check.set_finding(absl::StrFormat("%s took %.3g s of a step, %.3g s was forecast: %s",
                                    wrong->what, term.measured(), term.forecast(),
                                    longer ? wrong->if_longer : "it was better than assumed"));
}

}  // namespace

const v1::ForecastTerm* TermOf(const v1::ForecastCheck& check, absl::string_view name) {
  for (const v1::ForecastTerm& term : check.terms()) {
    if (term.name() == name) return &term;
  }
  return nullptr;
}

v1::ForecastCheck CheckOf(const ResolvedJob& job, const v1::JobForecast& forecast) {
  v1::ForecastCheck check;
  double pools = 0, compute = 0, copying = 0, wait = 0, evaluation = 0, speed = 0;
  const double h = job.spec.sync().h();
  for (const v1::PoolForecast& pool : forecast.pools()) {
    const v1::CycleSeconds& cycle = pool.cycle();
    pools += pool.copies();
    // Steps that it leaves out are in the cycle, too; they take no time.
    const double steps = h * (1 - pool.left_out());
    if (steps <= 0) continue;
    compute += pool.copies() * cycle.compute() / steps;
    copying += pool.copies() * cycle.copying() / steps;
    wait += pool.copies() *
            (cycle.uplink() + cycle.others() + cycle.coordinator() + cycle.downlink()) / steps;
    evaluation += pool.copies() * cycle.evaluation() / steps;
    speed += pool.copies() * pool.tokens_per_second();
  }
  check.set_pools(static_cast<int>(pools));
  if (pools == 0) return check;
  Add(kComputeTerm, compute / pools, check);
  Add(kCopyingTerm, copying / pools, check);
  Add(kWaitTerm, wait / pools, check);
  Add(kEvaluationTerm, evaluation / pools, check);
  Add(kUtilizationTerm, forecast.utilization(), check);
  Add(kSpeedTerm, speed, check);
  Add(kJobTerm, forecast.seconds(), check);
  *check.mutable_assumptions() = forecast.assumptions();
  return check;
}

void AddMeasured(const ResolvedJob& job,
                 const google::protobuf::RepeatedPtrField<v1::PoolProgress>& pools,
                 v1::ForecastCheck& check) {
  const double tokens_of_step = TokensOfStep(job);
  if (tokens_of_step <= 0) return;
  double count = 0, steps = 0, compute = 0, copying = 0, wait = 0, evaluation = 0, utilization = 0,
         speed = 0, most = 0, seconds = 0;
  for (const v1::PoolProgress& pool : pools) {
    const double own = static_cast<double>(pool.tokens()) / tokens_of_step;
    const double all = pool.compute_seconds() + pool.sync_seconds() + pool.exposed_wait_seconds();
    if (own < 1 || pool.compute_seconds() <= 0) continue;
    ++count;
    steps += own;
    compute += pool.compute_seconds() / own;
    copying += pool.sync_seconds() / own;
    wait += pool.exposed_wait_seconds() / own;
    evaluation += pool.eval_seconds() / own;
    utilization += pool.compute_seconds() / all;
    speed += static_cast<double>(pool.tokens()) / pool.compute_seconds();
    // The job goes at the pace of those that leave out no steps and were there from its start.
    if (own <= most) continue;
    most = own;
    seconds = (all + pool.eval_seconds()) / own;
  }
  if (count == 0 || steps / count < job.spec.sync().h()) return;
  SetMeasured(kComputeTerm, compute / count, check);
  SetMeasured(kCopyingTerm, copying / count, check);
  SetMeasured(kWaitTerm, wait / count, check);
  SetMeasured(kEvaluationTerm, evaluation / count, check);
  SetMeasured(kUtilizationTerm, utilization / count, check);
  SetMeasured(kSpeedTerm, speed, check);
  SetMeasured(kJobTerm, seconds * static_cast<double>(job.spec.train().steps()), check);
  FindWrong(check);
}

}  // namespace longhaul::plan
