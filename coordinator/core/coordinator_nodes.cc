// The nodes of pools that have several: how the pool follows its group of nodes.
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {
namespace {

std::string ReasonOfNode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kAlreadyExists:
      return "NODE_LIVE";
    case absl::StatusCode::kResourceExhausted:
      return "POOLS_FULL";
    default:
      return "NODES_DISAGREE";
  }
}

}  // namespace

void Coordinator::JoinNode(const JoinPool& event) {
  const Member* member = membership_.Find(event.pool);
  const bool live = member != nullptr && member->live;
  if (live && member->joined && !nodes_.Has(event.pool)) {
    return AnswerWith(Refuse{
        absl::AlreadyExistsError(absl::StrFormat("pool %s is live, and has one node", event.pool)),
        "POOL_LIVE", std::nullopt, member->lease_end - now_});
  }
  const bool runs = live && !event.running.empty() && member->incarnation == event.running;
  const NodeTraits traits{.nodes = event.nodes,
                          .number = event.node,
                          .given = event.node_given,
                          .traits = {event.ranks, event.cuda, event.capabilities},
                          .host = event.host,
                          .rendezvous = event.rendezvous,
                          .token = event.token,
                          .version = event.version,
                          .machine = event.machine};
  const absl::Status joined = nodes_.Join(event.pool, event.incarnation, traits,
                                          runs ? event.running : "", event.fresh, now_);
  if (!joined.ok()) {
    Refuse refusal{joined, ReasonOfNode(joined)};
    if (absl::IsAlreadyExists(joined)) refusal.retry_after = options_.lease;
    return AnswerWith(std::move(refusal));
  }
  granting_ = {event.pool, event.incarnation};
  FollowGroup(event.pool);
}

// A pool is a member while it has a group.
void Coordinator::FollowGroup(const std::string& pool) {
  const std::string group(nodes_.GroupOf(pool));
  const Member* member = membership_.Find(pool);
  if (member != nullptr && member->live && member->incarnation != group) LosePool(pool);
  if (group.empty() || !nodes_.Complete(pool)) return;
  if (Enter(pool, group, nodes_.TraitsOf(pool))) return;
  nodes_.Break(pool, now_);
  granting_.reset();
}

void Coordinator::LosePool(const std::string& pool) {
  membership_.Lose(pool);
  LosePlace(pool);
}

absl::Status Coordinator::Renew(std::string_view pool, std::string_view incarnation) {
  if (!nodes_.Has(pool)) return membership_.Renew(pool, incarnation, now_);
  LH_RETURN_IF_ERROR(nodes_.Renew(pool, incarnation, now_));
  const std::string_view group = nodes_.GroupOf(pool);
  // A group that is coming back after a restart has its lease of grace.
  if (group.empty() || !nodes_.Complete(pool)) return absl::OkStatus();
  return membership_.Renew(pool, group, now_);
}

std::string_view Coordinator::GroupOf(std::string_view pool, std::string_view incarnation) const {
  return nodes_.Has(pool) ? nodes_.GroupOf(pool) : incarnation;
}

}  // namespace longhaul::coordinator
