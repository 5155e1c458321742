// Replicas that train language models, as worker/rank makes them of a job.
#pragma once

#include <memory>

#include "worker/family/language/language_family.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {

struct LanguageRun {
  TrainingPlan plan;
  RankSite site;
  LanguageOptions language;
  std::shared_ptr<const InitialParameters> initial;
};

inline absl::StatusOr<std::unique_ptr<TorchReplica>> CreateReplica(const LanguageRun& run) {
  return TorchReplica::Create({.plan = run.plan,
                               .site = run.site,
                               .family = LanguageFamily(run.language),
                               .initial = run.initial});
}

}  // namespace longhaul
