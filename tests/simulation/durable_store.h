// What survives a crash of the simulated coordinator: exactly what was asked to be made durable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "coordinator/core/action.h"
#include "coordinator/core/recovery.h"
#include "tests/simulation/model.h"

namespace longhaul::simulation {

struct StoredFragment {
  int64_t version = -1;
  RoundKind kind = RoundKind::kSeed;
  std::string evaluator;
  std::vector<coordinator::Contributor> contributors;
  Outer outer;
};

struct ContributionKey {
  int fragment = 0;
  int64_t version = 0;
  std::string pool, incarnation;
  auto operator<=>(const ContributionKey&) const = default;
};

struct StoredJob {
  JobOptions options;
  JobState state = JobState::kPending;
  bool final_evaluation = false;
  std::vector<coordinator::RecoveredParticipant> participants;
  std::vector<StoredFragment> fragments;
  std::map<ContributionKey, Words> log;  // Whole contributions that were synced.
};

struct DurableStore {
  std::vector<std::string> order;
  std::map<std::string, StoredJob> jobs;

  void AddJob(const std::string& id, const JobOptions& options);
  void Save(const coordinator::PersistParticipant& place);
  void Save(const coordinator::PersistParticipantLeft& place);
  coordinator::Recovery Recover() const;
};

}  // namespace longhaul::simulation
