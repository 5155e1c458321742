#include "coordinator/pool/membership.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace longhaul {

absl::Status Membership::Join(std::string_view pool, std::string_view incarnation,
                              PoolTraits traits, absl::Time now) {
  auto it = members_.find(pool);
  const bool live = it != members_.end() && it->second.live;
  if (live && it->second.incarnation != incarnation) {
    return absl::AlreadyExistsError(absl::StrFormat(
        "pool %s is live with another worker; its lease ends in %s if that worker has stopped",
        pool, absl::FormatDuration(absl::Ceil(it->second.lease_end - now, absl::Seconds(1)))));
  }
  if (!live && static_cast<int>(leases_.size()) >= options_.members_max) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("%d pools are live, which is the limit", options_.members_max));
  }
  Member& member = it == members_.end() ? Add(pool) : it->second;
  if (!live) member.turn = next_turn_++;
  member.incarnation = incarnation;
  member.traits = std::move(traits);
  member.joined = true;
  member.draining = false;
  Extend(member, now);
  return absl::OkStatus();
}

bool Membership::Restore(std::string_view pool, std::string_view incarnation, absl::Time now) {
  const auto it = members_.find(pool);
  Member& member = it == members_.end() ? Add(pool) : it->second;
  if (member.live) return member.incarnation == incarnation;
  member.incarnation = incarnation;
  member.turn = next_turn_++;
  Extend(member, now);
  return true;
}

absl::Status Membership::Renew(std::string_view pool, std::string_view incarnation,
                               absl::Time now) {
  const auto it = members_.find(pool);
  if (it == members_.end() || !it->second.live || !it->second.joined) {
    return absl::NotFoundError(absl::StrFormat("pool %s has no lease; join again", pool));
  }
  if (it->second.incarnation != incarnation) {
    return absl::AbortedError(absl::StrFormat("another worker already holds the name %s", pool));
  }
  Extend(it->second, now);
  return absl::OkStatus();
}

bool Membership::Leave(std::string_view pool, std::string_view incarnation) {
  const auto it = members_.find(pool);
  if (it == members_.end() || !it->second.live || it->second.incarnation != incarnation)
    return false;
  leases_.erase(it->second.lease);
  members_.erase(it);
  return true;
}

void Membership::Lose(std::string_view pool) {
  const auto it = members_.find(pool);
  if (it != members_.end() && it->second.live) Kill(it->second);
}

std::vector<Member> Membership::Expire(absl::Time now) {
  std::vector<Member> expired;
  while (next_expiry() <= now) {
    Member& member = *leases_.front();
    expired.push_back(member);
    Kill(member);
  }
  ForgetLost();
  return expired;
}

void Membership::Requeue(std::string_view pool) {
  const auto it = members_.find(pool);
  if (it != members_.end()) it->second.turn = next_turn_++;
}

void Membership::Drain(std::string_view pool) {
  const auto it = members_.find(pool);
  if (it != members_.end()) it->second.draining = true;
}

const Member* Membership::Find(std::string_view pool) const {
  const auto it = members_.find(pool);
  return it == members_.end() ? nullptr : &it->second;
}

bool Membership::IsLive(std::string_view pool, std::string_view incarnation) const {
  const Member* member = Find(pool);
  return member != nullptr && member->live && member->incarnation == incarnation;
}

absl::Time Membership::next_expiry() const {
  return leases_.empty() ? absl::InfiniteFuture() : leases_.front()->lease_end;
}

// Adds a member that is lost and was never live.
Member& Membership::Add(std::string_view pool) {
  Member& member = members_.emplace(pool, Member{.pool = std::string(pool)}).first->second;
  member.lease = lost_.insert(lost_.end(), &member);
  return member;
}

void Membership::Extend(Member& member, absl::Time now) {
  leases_.splice(leases_.end(), member.live ? leases_ : lost_, member.lease);
  member.live = true;
  member.lease_end = now + options_.lease;
}

void Membership::Kill(Member& member) {
  lost_.splice(lost_.end(), leases_, member.lease);
  member.live = false;
  member.joined = false;
}

void Membership::ForgetLost() {
  while (static_cast<int>(lost_.size()) > options_.lost_max) {
    members_.erase(members_.find(lost_.front()->pool));
    lost_.pop_front();
  }
}

}  // namespace longhaul
