#include "coordinator/service/plan_message.h"

#include <algorithm>

#include "common/config/model_kinds.h"
#include "coordinator/service/messages.h"

namespace longhaul::coordinator {
namespace {

void FillFragment(const LiveJob& job, const FragmentView& view, int fragment, const AdmitRank& rank,
                  v1::FragmentPlan* plan) {
  const FragmentSchedule& schedule = job.resolved->schedule[fragment];
  plan->set_fragment(fragment);
  plan->set_elements(job.fragments->elements(fragment));
  plan->set_first_push_step(schedule.first_push_step);
  plan->set_period(schedule.period);
  plan->set_rounds(schedule.rounds);
  plan->set_version(view.version);
  const auto& contributors = view.contributors;
  plan->set_contributed(std::find(contributors.begin(), contributors.end(), rank.ordinal) !=
                        contributors.end());
  plan->set_called(view.called);
  for (const UnitSpan& span : job.resolved->fragments[fragment].units) {
    v1::UnitSpan* unit = plan->add_units();
    unit->set_unit(span.unit);
    unit->set_offset(span.offset);
    unit->set_elements(span.elements);
  }
  if (const auto& commit = job.progress.commit(fragment)) {
    *plan->mutable_digest() = ToProto(commit->digest);
    *plan->mutable_commit() = ToProto(*commit, job.id());
    // All names in all fragments may be too many for a message.
    plan->mutable_commit()->clear_pools();
    plan->mutable_commit()->clear_incarnations();
    const auto pool = std::find(commit->pools.begin(), commit->pools.end(), rank.pool);
    if (pool != commit->pools.end()) {
      plan->mutable_commit()->add_pools(*pool);
      plan->mutable_commit()->add_incarnations(commit->incarnations[pool - commit->pools.begin()]);
    }
  }
}

}  // namespace

v1::PlanEvent MakePlan(const LiveJob& job, const JobView& view, const AdmitRank& rank) {
  const v1::JobSpec& spec = job.resolved->spec;
  v1::PlanEvent event;
  v1::Plan* plan = event.mutable_plan();
  plan->set_job_id(job.id());
  plan->set_steps(spec.train().steps());
  plan->set_tau(spec.sync().tau());
  plan->set_alpha(spec.sync().alpha());
  plan->set_final_round(spec.sync().final_round());
  plan->set_start_step(rank.start_step);
  for (int f = 0; f < job.fragment_count(); ++f) {
    FillFragment(job, view.fragments[f], f, rank, plan->add_fragments());
  }
  *plan->mutable_up() = spec.sync().up();
  *plan->mutable_down() = spec.sync().down();
  plan->set_seed(rank.seed);
  plan->set_ordinal(rank.ordinal);
  plan->set_pool_evaluation_cycles(std::max(spec.evaluation().pools_every_cycles(), 0));
  plan->set_all_evaluate_last(true);
  if (EveryPoolEvaluates(spec.model()))
    plan->set_outer_evaluation_cycles(std::max(spec.evaluation().every_cycles(), 0));
  plan->set_quorum(spec.sync().mode() == v1::QUORUM);
  return event;
}

}  // namespace longhaul::coordinator
