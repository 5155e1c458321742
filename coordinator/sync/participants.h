// The pools of one job, each with its place. A place belongs to a pool's name: its ordinal is given
// at the first assignment and never to another pool. It orders the reduction and keys the pool's
// data. Which incarnation of the pool has the place changes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace longhaul {

enum class Presence {
  // Has a lease.
  kLive,
  // Its lease ended; it may come back to its place while no round went on without it.
  kLost,
  // It drained and left; its place is kept until return_until. Nobody waits for it.
  kAway,
  // A round that it should have contributed to went on without it: the parameters of this
  // incarnation are of no more use.
  kMissed,
  // It left, was replaced, or was let go.
  kLeft,
};

struct Participant {
  std::string pool, incarnation;
  int ordinal = 0;
  // Set when its first rank is ready. It owes the rounds pushed after this step.
  std::optional<int64_t> start_step = std::nullopt;
  Presence presence = Presence::kLive;
  // As it told.
  int64_t inner_step = 0;
  // It drains: rounds pushed after this step do not wait for it.
  std::optional<int64_t> last_step = std::nullopt;
  // Its nodes that merged the last commits, and whether all have.
  std::set<int> nodes_finished = {};
  bool finished = false;
  absl::Time return_until = absl::InfinitePast();

  bool live() const { return presence == Presence::kLive; }
  bool ready() const { return live() && start_step.has_value(); }
  bool gone() const { return presence == Presence::kMissed || presence == Presence::kLeft; }
  // Live, or away with its place kept.
  bool present() const { return live() || presence == Presence::kAway; }
  bool Owes(int64_t push_step) const { return start_step.has_value() && *start_step < push_step; }
  // Whether a round waits for it: it owes the round and will come so far.
  bool Awaited(int64_t push_step) const {
    return Owes(push_step) && (!last_step.has_value() || push_step <= *last_step);
  }
};

// Externally synchronised. References stay valid.
class Participants {
 public:
  // The place of the pool, live, for this incarnation: its old one, or a new one with the next
  // ordinal. Requires that the pool has no live place.
  Participant& Take(const std::string& pool, const std::string& incarnation);
  // After a restart, by ordinal, without gaps.
  void Restore(Participant participant);

  // The pool's place, or null.
  Participant* Find(std::string_view pool);
  const Participant* Find(std::string_view pool) const;
  // Null as well if another incarnation has the place.
  const Participant* Find(std::string_view pool, std::string_view incarnation) const;

  Participant& at(int ordinal) { return all_[ordinal]; }
  const Participant& at(int ordinal) const { return all_[ordinal]; }
  // By ordinal.
  std::deque<Participant>& all() { return all_; }
  const std::deque<Participant>& all() const { return all_; }
  int ready_count() const;
  int live_count() const;
  int present_count() const;

 private:
  std::deque<Participant> all_;
  std::map<std::string, int, std::less<>> by_pool_;
};

}  // namespace longhaul
