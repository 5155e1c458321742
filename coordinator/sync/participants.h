// The pools of one job, each with its place: the ordinal, given in the order of assignment and
// never twice. It orders the reduction and keys the pool's data.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace longhaul {

enum class Presence {
  kLive,    // Has a lease.
  kLost,    // Its lease ended; it may come back to its place while no round went on without it.
  kMissed,  // A round that it should have contributed to went on without it: its parameters are of
            // no more use.
  kLeft,    // It left, was replaced, or was let go.
};

struct Participant {
  std::string pool, incarnation;
  int ordinal = 0;
  std::optional<int64_t>
      start_step;  // Set when its first rank is ready. It owes the rounds pushed after this step.
  Presence presence = Presence::kLive;
  int64_t inner_step = 0;  // As it told.

  bool live() const { return presence == Presence::kLive; }
  bool ready() const { return live() && start_step.has_value(); }
  bool gone() const { return presence == Presence::kMissed || presence == Presence::kLeft; }
  bool Owes(int64_t push_step) const { return start_step.has_value() && *start_step < push_step; }
};

// Externally synchronised. References stay valid.
class Participants {
 public:
  // The next ordinal. A pool may come again under the same incarnation only after its earlier place
  // is gone.
  Participant& Add(std::string pool, std::string incarnation);
  // The newest place of that incarnation, or null.
  Participant* Find(std::string_view pool, std::string_view incarnation);
  const Participant* Find(std::string_view pool, std::string_view incarnation) const;

  Participant& at(int ordinal) { return all_[ordinal]; }
  const Participant& at(int ordinal) const { return all_[ordinal]; }
  std::deque<Participant>& all() { return all_; }  // By ordinal.
  const std::deque<Participant>& all() const { return all_; }
  int live_count() const;
  int ready_count() const;

 private:
  std::deque<Participant> all_;
  std::map<std::pair<std::string, std::string>, int> newest_;
};

}  // namespace longhaul
