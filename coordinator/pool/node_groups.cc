#include "coordinator/pool/node_groups.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/host_port.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// Unique, since a pool's name has no slash.
std::string LeaseName(std::string_view pool, int node) {
  return absl::StrFormat("%s/%d", pool, node);
}

bool IsFixed(const NodeTraits& traits) { return traits.number.has_value() && !traits.given; }

std::string DeviceWord(const PoolTraits& traits) { return traits.cuda ? "cuda" : "cpu"; }

}  // namespace

NodeGroups::NodeGroups(const Options& options)
    : options_(options),
      leases_(
          {.lease = options.lease, .members_max = options.pools_max * kRanksMax, .lost_max = 0}) {}

bool NodeGroups::Pool::complete() const {
  return std::all_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.here; });
}

std::string NodeGroups::Pool::Missing() const {
  std::vector<int> missing;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!nodes[n].here) missing.push_back(static_cast<int>(n));
  }
  if (missing.empty()) return absl::StrFormat("a new group of its %d nodes", nodes.size());
  return absl::StrFormat("node%s %s of %d%s%s", missing.size() > 1 ? "s" : "",
                         absl::StrJoin(missing, ", "), nodes.size(),
                         disagreement.empty() ? "" : "; a node was refused: ", disagreement);
}

absl::Status NodeGroups::Join(std::string_view name, std::string_view incarnation,
                              const NodeTraits& traits, std::string_view running,
                              std::string_view fresh, absl::Time now) {
  if (traits.nodes < 1 || traits.nodes > kRanksMax) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d nodes are not within 1 to %d", traits.nodes, kRanksMax));
  }
  if (traits.number.has_value() && (*traits.number < 0 || *traits.number >= traits.nodes)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("node %d is not within 0 to %d", *traits.number, traits.nodes - 1));
  }
  // A known pool has at least one node here.
  const auto it = pools_.find(name);
  const bool is_new = it == pools_.end();
  if (is_new && static_cast<int>(pools_.size()) >= options_.pools_max) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "%d pools of several nodes are known, which is the limit", options_.pools_max));
  }
  Pool made{.nodes = std::vector<Node>(is_new ? traits.nodes : 0), .since = now};
  Pool& pool = is_new ? made : it->second;
  std::optional<int> number = NumberFor(pool, incarnation, traits);
  if (absl::Status agrees = CheckAgrees(name, pool, number.value_or(-1), traits); !agrees.ok()) {
    pool.disagreement = std::string(agrees.message());
    return agrees;
  }
  if (!number.has_value() && IsFixed(traits) && MakeRoom(name, pool, *traits.number, now))
    number = traits.number;
  if (!number.has_value()) {
    return absl::AlreadyExistsError(
        traits.number.has_value()
            ? absl::StrFormat("another agent is node %d of pool %s", *traits.number, name)
            : absl::StrFormat("all %d nodes of pool %s have already joined", traits.nodes, name));
  }
  LH_RETURN_IF_ERROR(leases_.Join(LeaseName(name, *number), incarnation, {}, now));
  Node& node = pool.nodes[*number];
  const bool was_here = node.here;
  node = {std::string(incarnation), traits, true};
  if (is_new) {
    pool.group = running;
  } else if (!was_here && pool.group != running) {
    End(pool, now);
  }
  if (pool.complete()) pool.disagreement.clear();
  if (pool.group.empty() && pool.complete()) pool.group = fresh;
  if (is_new) pools_.emplace(name, std::move(made));
  return absl::OkStatus();
}

absl::Status NodeGroups::Renew(std::string_view name, std::string_view incarnation,
                               absl::Time now) {
  const auto it = pools_.find(name);
  const std::optional<int> number =
      it == pools_.end() ? std::nullopt : Find(it->second, incarnation);
  if (number.has_value()) return leases_.Renew(LeaseName(name, *number), incarnation, now);
  return absl::NotFoundError(
      absl::StrFormat("this node of pool %s has no lease; join again", name));
}

bool NodeGroups::Leave(std::string_view name, std::string_view incarnation, absl::Time now) {
  const auto it = pools_.find(name);
  if (it == pools_.end()) return false;
  const std::optional<int> number = Find(it->second, incarnation);
  if (!number.has_value()) return false;
  leases_.Leave(LeaseName(name, *number), incarnation);
  Lose(it, *number, now);
  return true;
}

std::vector<std::string> NodeGroups::Expire(absl::Time now) {
  std::vector<std::string> pools;
  for (const Member& lost : leases_.Expire(now)) {
    const auto slash = lost.pool.find('/');
    const std::string name = lost.pool.substr(0, slash);
    int number = 0;
    if (!absl::SimpleAtoi(lost.pool.substr(slash + 1), &number)) continue;
    const auto it = pools_.find(name);
    if (it == pools_.end()) continue;
    pools.push_back(name);
    Lose(it, number, now);
  }
  return pools;
}

void NodeGroups::Break(std::string_view name, absl::Time now) {
  if (const auto it = pools_.find(name); it != pools_.end()) End(it->second, now);
}

// Forgets a pool that has no node here any more.
void NodeGroups::Lose(Pools::iterator it, int number, absl::Time now) {
  Pool& pool = it->second;
  pool.nodes[number].here = false;
  End(pool, now);
  if (std::none_of(pool.nodes.begin(), pool.nodes.end(), [](const Node& n) { return n.here; }))
    pools_.erase(it);
}

void NodeGroups::End(Pool& pool, absl::Time now) {
  if (pool.group.empty()) return;
  pool.group.clear();
  pool.since = now;
}

std::optional<NodePlace> NodeGroups::PlaceOf(std::string_view name,
                                             std::string_view incarnation) const {
  const auto it = pools_.find(name);
  if (it == pools_.end()) return std::nullopt;
  const Pool& pool = it->second;
  const std::optional<int> number = Find(pool, incarnation);
  if (!number.has_value()) return std::nullopt;
  NodePlace place{.node = *number,
                  .nodes = static_cast<int>(pool.nodes.size()),
                  .incarnation = pool.group,
                  .since = pool.since};
  if (pool.group.empty() || !pool.complete()) place.missing = pool.Missing();
  if (!pool.complete()) return place;
  place.rendezvous = pool.nodes[0].traits.rendezvous;
  place.token = pool.nodes[0].traits.token;
  for (int n = 0; n < place.nodes; ++n) {
    if (n == *number) place.first_rank = place.ranks;
    place.ranks_of_node.push_back(pool.nodes[n].traits.traits.ranks);
    place.ranks += place.ranks_of_node.back();
  }
  return place;
}

std::string_view NodeGroups::GroupOf(std::string_view name) const {
  const auto it = pools_.find(name);
  return it == pools_.end() ? std::string_view() : it->second.group;
}

bool NodeGroups::Complete(std::string_view name) const {
  const auto it = pools_.find(name);
  return it != pools_.end() && it->second.complete();
}

std::vector<NodeView> NodeGroups::NodesOf(std::string_view name) const {
  std::vector<NodeView> views;
  const auto it = pools_.find(name);
  if (it == pools_.end()) return views;
  for (const Node& node : it->second.nodes) {
    views.push_back({static_cast<int>(views.size()), node.here, node.traits.traits.ranks,
                     node.traits.host, node.traits.machine});
  }
  return views;
}

std::vector<NodeGroups::Forming> NodeGroups::forming() const {
  std::vector<Forming> forming;
  for (const auto& [name, pool] : pools_) {
    if (pool.group.empty()) forming.push_back({name, pool.Missing(), pool.since});
  }
  return forming;
}

PoolTraits NodeGroups::TraitsOf(std::string_view name) const {
  std::optional<PoolTraits> all;
  for (const Node& node : pools_.find(name)->second.nodes) {
    if (!node.here) continue;
    const PoolTraits& traits = node.traits.traits;
    if (!all.has_value()) {
      all = traits;
      continue;
    }
    all->ranks += traits.ranks;
    std::erase_if(all->capabilities, [&](const std::string& capability) {
      return !traits.capabilities.contains(capability);
    });
  }
  return *std::move(all);
}

std::optional<int> NodeGroups::Find(const Pool& pool, std::string_view incarnation) {
  for (size_t n = 0; n < pool.nodes.size(); ++n) {
    if (pool.nodes[n].here && pool.nodes[n].incarnation == incarnation) return n;
  }
  return std::nullopt;
}

std::optional<int> NodeGroups::NumberFor(const Pool& pool, std::string_view incarnation,
                                         const NodeTraits& traits) {
  if (const std::optional<int> number = Find(pool, incarnation)) return number;
  const auto free = [&](int n) { return !pool.nodes[n].here; };
  if (traits.number.has_value()) {
    const bool possible = *traits.number < static_cast<int>(pool.nodes.size());
    return possible && free(*traits.number) ? traits.number : std::nullopt;
  }
  std::optional<int> first;
  for (int n = static_cast<int>(pool.nodes.size()) - 1; n >= 0; --n) {
    if (!free(n)) continue;
    first = n;
    // A node that comes again from the same host gets its earlier number.
    if (!traits.host.empty() && pool.nodes[n].traits.host == traits.host) return n;
  }
  return first;
}

bool NodeGroups::MakeRoom(std::string_view name, Pool& pool, int number, absl::Time now) {
  Node& node = pool.nodes[number];
  const auto free = std::find_if(pool.nodes.begin(), pool.nodes.end(),
                                 [](const Node& other) { return !other.here; });
  if (!pool.group.empty() || IsFixed(node.traits) || free == pool.nodes.end()) return false;
  // The lease begins anew.
  leases_.Leave(LeaseName(name, number), node.incarnation);
  const std::string moved = LeaseName(name, static_cast<int>(free - pool.nodes.begin()));
  LH_CHECK(leases_.Join(moved, node.incarnation, {}, now).ok(), "one lease less was there");
  *free = std::exchange(node, {});
  return true;
}

absl::Status NodeGroups::CheckAgrees(std::string_view name, const Pool& pool, int number,
                                     const NodeTraits& traits) const {
  int ranks = traits.traits.ranks;
  for (int n = 0; n < static_cast<int>(pool.nodes.size()); ++n) {
    const Node& other = pool.nodes[n];
    if (!other.here) continue;
    const auto differ = [&](std::string_view what, std::string_view theirs, std::string_view ours) {
      return absl::FailedPreconditionError(
          absl::StrFormat("nodes of pool %s disagree: %s is %s on node %d, %s on this one", name,
                          what, theirs, n, ours));
    };
    if (other.traits.nodes != traits.nodes) {
      return differ("the number of nodes", absl::StrCat(other.traits.nodes),
                    absl::StrCat(traits.nodes));
    }
    if (n == number) continue;
    ranks += other.traits.traits.ranks;
    if (other.traits.traits.cuda != traits.traits.cuda)
      return differ("the device", DeviceWord(other.traits.traits), DeviceWord(traits.traits));
    // Nodes could not reach each other if only some had a loopback address.
    if (IsLoopback(other.traits.host) != IsLoopback(traits.host)) {
      const absl::Status differs = differ("the address", other.traits.host, traits.host);
      return absl::Status(
          differs.code(),
          absl::StrCat(differs.message(), "; other machines cannot reach a loopback address: give ",
                       IsLoopback(traits.host) ? "this node" : absl::StrCat("node ", n),
                       " --in-pool-address, or the coordinator's real address"));
    }
    if (other.traits.version != traits.version)
      return differ("the version", other.traits.version, traits.version);
  }
  if (ranks > kRanksMax) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "pool %s would have %d ranks, at most %d are possible", name, ranks, kRanksMax));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
