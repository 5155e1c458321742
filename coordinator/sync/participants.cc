#include "coordinator/sync/participants.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace longhaul {

Participant& Participants::Take(const std::string& pool, const std::string& incarnation) {
  const auto [place, added] = by_pool_.emplace(pool, static_cast<int>(all_.size()));
  if (added) all_.emplace_back();
  Participant& participant = all_[place->second];
  LH_CHECK(added || !participant.live(), "a pool has one place in a job");
  const bool begun = participant.incarnation == incarnation &&
                     (participant.start_step.has_value() || participant.spent);
  participant = {
      .pool = pool, .incarnation = incarnation, .ordinal = place->second, .spent = begun};
  return participant;
}

void Participants::Restore(Participant participant) {
  LH_CHECK(participant.ordinal == static_cast<int>(all_.size()), "restored ordinals have no gaps");
  LH_CHECK(by_pool_.emplace(participant.pool, participant.ordinal).second, "a pool has one place");
  all_.push_back(std::move(participant));
}

Participant* Participants::Find(std::string_view pool) {
  const auto place = by_pool_.find(pool);
  return place == by_pool_.end() ? nullptr : &all_[place->second];
}

const Participant* Participants::Find(std::string_view pool) const {
  return const_cast<Participants*>(this)->Find(pool);
}

const Participant* Participants::Find(std::string_view pool, std::string_view incarnation) const {
  const Participant* participant = Find(pool);
  if (participant == nullptr || participant->incarnation != incarnation || participant->spent)
    return nullptr;
  return participant;
}

int Participants::ready_count() const {
  return static_cast<int>(
      std::count_if(all_.begin(), all_.end(), [](const Participant& p) { return p.ready(); }));
}

int Participants::live_count() const {
  return static_cast<int>(
      std::count_if(all_.begin(), all_.end(), [](const Participant& p) { return p.live(); }));
}

int Participants::present_count() const {
  return static_cast<int>(
      std::count_if(all_.begin(), all_.end(), [](const Participant& p) { return p.present(); }));
}

}  // namespace longhaul
