// How many bulk channels a rank opens. In one round trip a connection carries at most the bytes
// that its sender's kernel keeps until they are acknowledged. So over a distant link several
// connections are needed to fill it. Pacing (pacer.h) keeps them from sending more than the link
// carries.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace longhaul {

struct BulkLink {
  // What the ranks of a pool may use.
  double megabits_per_second = 1000;
  absl::Duration round_trip;
  // The most bytes that the sender's kernel keeps for a connection.
  int64_t send_buffer_bytes = 4 << 20;
};

inline constexpr int kDistantChannelsMin = 4, kDistantChannelsMax = 16;

// 1 if the round trip is below 3 ms. Otherwise twice bandwidth x round trip over the send buffer,
// rounded up, within the two constants.
int BulkChannelCount(const BulkLink& link);

// The rate for pushes over such a link: a little less than its bandwidth, so that headers (3.5 % of
// packets of 1500 bytes) fit in and no queue grows.
inline double PacedBytesPerSecond(const BulkLink& link) {
  return 0.96 * link.megabits_per_second * 1e6 / 8;
}

// How many of the channels a transfer uses: at most one for each MiB. A push that is paced (0: it
// is not) also uses at most so many that each sends a chunk every 10 s, also while another push
// runs: the server ends a stream that brings nothing for 30 s (stall_watch.h).
int StreamCount(int channels, int64_t bytes, double paced_bytes_per_second);

// On how many of the channels transfers in one direction of a link are kept moving, as they show.
// Thread-safe.
class StreamLimit {
 public:
  explicit StreamLimit(int channels) : channels_(channels), most_(channels) {}

  int most() const { return most_; }
  // The link was too slow for them: a quarter from now on. The next transfer would lose as much
  // time before it knew.
  void TooSlow();
  // A transfer brought so many bytes in this time. So fast a link keeps as many moving as
  // StreamCount says.
  void Passed(int64_t bytes, absl::Duration took);

 private:
  const int channels_;
  std::atomic<int> most_;
};

}  // namespace longhaul
