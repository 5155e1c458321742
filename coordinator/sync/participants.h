// The pools of one job, each with its place. A place belongs to a pool's name: its ordinal is given
// at the first assignment, and never to another pool. The ordinal orders the reduction and
// determines the pool's data. The incarnation of the pool that has the place may change.
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
  // Its lease ended. It may come back to its place until a round continues without it.
  kLost,
  // It drained and left. Its place is kept until return_until. No round waits for it.
  kAway,
  // A round was applied without its contribution. So the parameters of this incarnation cannot be
  // used any more.
  kMissed,
  // It left, was replaced, or lost its place.
  kLeft,
};

struct Participant {
  std::string pool, incarnation;
  int ordinal = 0;
  // Set when its first rank is ready. It owes the rounds pushed after this step.
  std::optional<int64_t> start_step = std::nullopt;
  Presence presence = Presence::kLive;
  // Ranks of this incarnation began the job in an earlier place, and some may still run: no rank
  // begins in this one. The pool gets it under another incarnation.
  bool spent = false;
  // As the pool reported it.
  int64_t inner_step = 0;
  // It was asked to stop, since the job is being paused; and its nodes that have stopped, and
  // whether all have done so.
  bool stopping = false;
  std::set<int> nodes_stopped = {};
  bool stopped = false;
  // Set when the pool drains or stops: rounds pushed after this step do not wait for it.
  std::optional<int64_t> last_step = std::nullopt;
  // Rounds that went on without it although it was live, and those since it contributed last. Not
  // stored.
  int64_t late_rounds = 0;
  int64_t late_in_a_row = 0;
  // It merged the last commits.
  bool merged = false;
  // The pool's nodes that have come to their end, and whether all have done so.
  std::set<int> nodes_finished = {};
  bool finished = false;
  absl::Time return_until = absl::InfinitePast();

  bool live() const { return presence == Presence::kLive; }
  bool ready() const { return live() && start_step.has_value(); }
  bool gone() const { return presence == Presence::kMissed || presence == Presence::kLeft; }
  // Live, or away with its place kept.
  bool present() const { return live() || presence == Presence::kAway; }
  bool Owes(int64_t push_step) const { return start_step.has_value() && *start_step < push_step; }
  // Whether a round waits for the pool: it owes the round, and will not stop before its push.
  bool Awaited(int64_t push_step) const {
    return Owes(push_step) && (!last_step.has_value() || push_step <= *last_step);
  }
};

// Externally synchronised. References stay valid.
class Participants {
 public:
  // Gives the pool a live place for this incarnation: its old place, or a new one with the next
  // ordinal. Requires that the pool has no live place. An incarnation begins a job once: if it had
  // a start step in the old place, it is spent.
  Participant& Take(const std::string& pool, const std::string& incarnation);
  // Adds a participant after a restart. They come by ordinal, without gaps.
  void Restore(Participant participant);

  // The pool's place, or null.
  Participant* Find(std::string_view pool);
  const Participant* Find(std::string_view pool) const;
  // Also null if another incarnation has the place, or if this one is spent.
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
