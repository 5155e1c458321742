#include "common/rpc/channel_count.h"

#include <algorithm>
#include <cmath>

namespace longhaul {
namespace {

// The kernel counts the memory of a send buffer, not the bytes in it: of 4 MiB, 2.5 MiB were
// measured to be in flight. The rest allows other connections to make up for a slow one.
constexpr double kPayloadShare = 0.5;

constexpr int64_t kMiB = 1 << 20;
constexpr double kSecondsOfAChunk = 10;

}  // namespace

int BulkChannelCount(const BulkLink& link) {
  // Within a site one connection fills the link: its window covers 3 ms of 7 Gbit/s.
  if (link.round_trip < absl::Milliseconds(3)) return 1;
  const double link_bytes =
      link.megabits_per_second * 1e6 / 8 * absl::ToDoubleSeconds(link.round_trip);
  const double connection_bytes =
      std::max(1.0, kPayloadShare * static_cast<double>(link.send_buffer_bytes));
  return static_cast<int>(std::clamp<double>(std::ceil(link_bytes / connection_bytes),
                                             kDistantChannelsMin, kDistantChannelsMax));
}

int StreamCount(int channels, int64_t bytes, double paced_bytes_per_second) {
  double most = std::min<double>(channels, std::ceil(static_cast<double>(bytes) / kMiB));
  if (paced_bytes_per_second > 0)
    most = std::min(most, std::floor(paced_bytes_per_second * kSecondsOfAChunk / kMiB));
  return static_cast<int>(std::max(1.0, most));
}

void StreamLimit::TooSlow() { most_ = std::max(1, most_ / 4); }

void StreamLimit::Passed(int64_t bytes, absl::Duration took) {
  if (bytes <= 0) return;
  const double pace = static_cast<double>(bytes) / std::max(absl::ToDoubleSeconds(took), 1e-6);
  most_ = std::max<int>(most_, StreamCount(channels_, channels_ * kMiB, pace));
}

}  // namespace longhaul
