#include "coordinator/effects/health_facts.h"

#include <map>
#include <optional>
#include <string>

namespace longhaul::coordinator {
namespace {

void AddRounds(const LiveJob& job, HealthFacts& facts) {
  double cosines = 0;
  int with_cosine = 0;
  facts.fragments = job.fragment_count();
  for (int f = 0; f < job.fragment_count(); ++f) {
    const std::optional<CommitRecord>& commit = job.progress.commit(f);
    if (!commit.has_value()) continue;
    facts.rounds += commit->round.version;
    facts.parameter_norms[f] = commit->outer_parameter_norm;
    if (!commit->contribution_cosine.has_value()) continue;
    cosines += *commit->contribution_cosine;
    ++with_cosine;
  }
  if (with_cosine > 0) facts.cosine = cosines / with_cosine;
}

std::optional<double> LossOf(const EvaluationRecord* evaluation) {
  return evaluation == nullptr ? std::nullopt : std::optional(evaluation->loss);
}

void AddPools(const LiveJob& job, const JobView& view, HealthFacts& facts) {
  std::map<std::string, bool> trains;
  for (const ParticipantView& place : view.participants)
    trains[place.pool] = place.live && place.start_step.has_value();
  double utilization = 0;
  int timed = 0;
  for (const auto& [name, history] : job.progress.pools()) {
    if (history.incarnation.empty()) continue;
    const v1::PoolProgress total = history.Total();
    facts.pools.push_back({.name = name,
                           .trains = trains[name],
                           .train_loss = total.train_loss(),
                           .steps = history.steps(),
                           .skipped_steps = total.skipped_steps(),
                           .contributed_tokens = total.contributed_tokens(),
                           .left_out_fragments = job.progress.LeftOutFragments(name),
                           .outer_loss = LossOf(job.progress.SiteEvaluation(name)),
                           .own_loss = LossOf(job.progress.PoolEvaluation(name))});
    if (const std::optional<double> share = UtilizationOf(total)) {
      utilization += *share;
      ++timed;
    }
  }
  if (timed > 0) facts.utilization = utilization / timed;
}

}  // namespace

HealthFacts HealthFactsOf(const LiveJob& job, const JobView& view) {
  HealthFacts facts;
  const JobState state = job.state();
  facts.finishing = state == JobState::kFinishing;
  facts.running = facts.finishing || state == JobState::kRunning;
  facts.guess = GuardOf(job.resolved->spec).guess;
  if (view.divergence.has_value()) {
    facts.divergence = view.divergence->words;
    facts.divergence_since = view.divergence->since;
    facts.divergence_lasts = view.divergence->lasts;
  } else if (IsPaused(job.pause.stage) && job.pause.by == kGuardName) {
    // Since a restart the evaluations are not known.
    facts.divergence = job.pause.reason;
    facts.divergence_since = job.pause.at;
    facts.divergence_lasts = true;
  }
  facts.evaluation = job.progress.EvaluationLoss();
  facts.norm = job.norms.alert();
  AddPools(job, view, facts);
  for (const SetAsideView& pool : view.set_aside)
    facts.set_aside[pool.pool] = {pool.fault.message, pool.failures};
  AddRounds(job, facts);
  return facts;
}

}  // namespace longhaul::coordinator
