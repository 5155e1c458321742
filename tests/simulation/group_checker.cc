#include "tests/simulation/group_checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longhaul::simulation {
namespace {

std::string RankName(const RankId& who) {
  return absl::StrFormat("rank %d of %s/%s in %s", who.rank, who.pool, who.incarnation, who.job);
}

}  // namespace

void GroupChecker::Joined(const coordinator::JoinPool& join, const std::vector<NodeView>& before,
                          const NodePlace& place) {
  if (join.node.has_value() && *join.node != place.node) {
    Violation(absl::StrFormat("%s of pool %s wants number %d and has %d", join.host, join.pool,
                              *join.node, place.node));
  }
  if (join.node.has_value()) return;
  // A pool is forgotten when its last node goes, also if another incarnation replaces that node.
  const bool known = std::any_of(before.begin(), before.end(), [&](const NodeView& node) {
    return node.here && node.host != join.host;
  });
  if (!known) return;
  // Numbers of that machine which nobody has now.
  std::set<int> earlier;
  for (const NodeView& node : before) {
    if (node.host != join.host) continue;
    if (node.here && node.node == place.node) return;
    if (!node.here) earlier.insert(node.node);
  }
  if (!earlier.empty() && !earlier.contains(place.node)) {
    Violation(absl::StrFormat("%s of pool %s had number %d and has %d now", join.host, join.pool,
                              *earlier.begin(), place.node));
  }
}

void GroupChecker::Placed(const std::string& pool, const std::string& incarnation,
                          const NodePlace& place) {
  if (place.incarnation.empty()) return;
  const std::string& first =
      agents_.try_emplace({pool, place.incarnation, place.node}, incarnation).first->second;
  if (first == incarnation) return;
  Violation(absl::StrFormat("agents %s and %s are node %d of %s/%s", first, incarnation, place.node,
                            pool, place.incarnation));
}

void GroupChecker::Starts(const RankId& who, int machine, int nodes) {
  Start& start = starts_[{who.job, who.pool, who.incarnation}];
  if (start.ranks == 0) start.ranks = who.ranks;
  start.nodes = nodes;
  if (start.ranks != who.ranks || who.rank < 0 || who.rank >= who.ranks) {
    Violation(absl::StrFormat("%s is one of %d ranks, others of %d", RankName(who), who.ranks,
                              start.ranks));
  }
  const bool first = start.machines.try_emplace(who.rank, machine).second;
  if (!start.living.insert(who.rank).second)
    return Violation(absl::StrCat("two processes are ", RankName(who)));
  if (!first && nodes > 1) Violation(absl::StrCat(RankName(who), " begins a second time"));
}

void GroupChecker::Ends(const RankId& who) {
  starts_[{who.job, who.pool, who.incarnation}].living.erase(who.rank);
}

void GroupChecker::Trains(const RankId& who, absl::Time since, absl::Time now) {
  const Start& start = starts_[{who.job, who.pool, who.incarnation}];
  std::set<int> machines;
  for (const auto& [rank, machine] : start.machines) machines.insert(machine);
  if (static_cast<int>(machines.size()) != start.nodes) {
    Violation(absl::StrFormat("%s/%s trains on %d machines, and has %d nodes", who.pool,
                              who.incarnation, machines.size(), start.nodes));
  }
  Pool& pool = pools_[who.pool];
  if (pool.newest == who.incarnation) return;
  if (const auto earlier = pool.earlier.find(who.incarnation); earlier != pool.earlier.end()) {
    if (since <= earlier->second) return;
    return Violation(
        absl::StrFormat("%s/%s trains after a later incarnation did", who.pool, who.incarnation));
  }
  // An earlier incarnation did one step, and this rank does it late, since it stood still.
  if (since <= pool.newest_began) return;
  if (!pool.newest.empty()) pool.earlier[pool.newest] = now;
  pool.newest = who.incarnation;
  pool.newest_began = now;
}

void GroupChecker::Whole(const std::string& pool, bool whole) {
  if (!whole) checker_->Violation(absl::StrCat("liveness: pool ", pool, " is not whole"));
}

}  // namespace longhaul::simulation
