#include "coordinator/sync/participants.h"

#include <algorithm>
#include <utility>

namespace longhaul {

Participant& Participants::Add(std::string pool, std::string incarnation) {
  const int ordinal = static_cast<int>(all_.size());
  newest_[{pool, incarnation}] = ordinal;
  return all_.emplace_back(Participant{
      .pool = std::move(pool), .incarnation = std::move(incarnation), .ordinal = ordinal});
}

Participant* Participants::Find(std::string_view pool, std::string_view incarnation) {
  const auto it = newest_.find({std::string(pool), std::string(incarnation)});
  return it == newest_.end() ? nullptr : &all_[it->second];
}

const Participant* Participants::Find(std::string_view pool, std::string_view incarnation) const {
  return const_cast<Participants*>(this)->Find(pool, incarnation);
}

int Participants::live_count() const {
  return static_cast<int>(
      std::count_if(all_.begin(), all_.end(), [](const Participant& p) { return p.live(); }));
}

int Participants::ready_count() const {
  return static_cast<int>(
      std::count_if(all_.begin(), all_.end(), [](const Participant& p) { return p.ready(); }));
}

}  // namespace longhaul
