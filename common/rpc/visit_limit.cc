#include "common/rpc/visit_limit.h"

#include <algorithm>

namespace longhaul {
namespace {

// A client has all addresses of such a network of IPv6, if it has one of them.
constexpr size_t kNetworkBytes = 8;

std::string NetworkOf(const std::string& address) {
  return address.size() == 16 ? address.substr(0, kNetworkBytes) : address;
}

}  // namespace

double VisitLimit::RoomOf(const Bucket& bucket, absl::Time now) {
  return std::min(kAtOnce, bucket.room + kPerSecond * absl::ToDoubleSeconds(now - bucket.at));
}

void VisitLimit::Ended(const std::string& address, absl::Time since, absl::Time now) {
  if (now - since >= kShort) return;
  if (buckets_.size() >= kAddressesMax)
    std::erase_if(buckets_, [&](const auto& one) { return RoomOf(one.second, now) >= kAtOnce; });
  if (buckets_.size() >= kAddressesMax) return;
  Bucket& bucket = buckets_.try_emplace(NetworkOf(address), Bucket{.at = now}).first->second;
  bucket = {std::max(0.0, RoomOf(bucket, now) - 1), now};
}

bool VisitLimit::IsExceeded(const std::string& address, absl::Time now) {
  const auto found = buckets_.find(NetworkOf(address));
  return found != buckets_.end() && RoomOf(found->second, now) < 1;
}

}  // namespace longhaul
