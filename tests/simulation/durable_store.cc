#include "tests/simulation/durable_store.h"

#include <map>
#include <utility>

namespace longhaul::simulation {

void DurableStore::AddJob(const std::string& id, const JobOptions& options) {
  order.push_back(id);
  StoredJob& job = jobs[id];
  job.options = options;
  job.fragments.resize(options.schedule.size());
}

void DurableStore::Save(const coordinator::PersistParticipant& place) {
  auto& participants = jobs.at(place.job).participants;
  if (place.ordinal >= static_cast<int>(participants.size()))
    participants.resize(place.ordinal + 1);
  participants[place.ordinal] = {place.pool, place.incarnation, place.ordinal, place.start_step,
                                 false};
}

void DurableStore::Save(const coordinator::PersistParticipantLeft& place) {
  jobs.at(place.job).participants.at(place.ordinal).left = true;
}

coordinator::Recovery DurableStore::Recover() const {
  coordinator::Recovery recovery;
  for (const std::string& id : order) {
    const StoredJob& stored = jobs.at(id);
    coordinator::RecoveredJob job{
        id, stored.options, stored.state, stored.final_evaluation, stored.participants, {}};
    for (int f = 0; f < static_cast<int>(stored.fragments.size()); ++f) {
      const StoredFragment& fragment = stored.fragments[f];
      coordinator::RecoveredFragment recovered{fragment.version, fragment.evaluator, {}};
      std::map<std::pair<std::string, std::string>, int> newest;  // An incarnation's newest place.
      for (const auto& place : stored.participants)
        newest[{place.pool, place.incarnation}] = place.ordinal;
      for (const auto& [who, ordinal] : newest) {
        if (stored.log.contains({f, fragment.version + 1, who.first, who.second})) {
          recovered.contributors.push_back(ordinal);
        }
      }
      job.fragments.push_back(std::move(recovered));
    }
    recovery.jobs.push_back(std::move(job));
  }
  return recovery;
}

}  // namespace longhaul::simulation
