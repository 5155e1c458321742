// How large the chunks of a transfer are. A chunk of which only a part has arrived when its
// connection breaks is lost. So where connections break early, only small chunks arrive; but each
// costs a pull a round trip.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longhaul {

// The most payload of a chunk.
inline constexpr int64_t kPayloadBytesMax = 1 << 20;

// A value: each attempt begins with the transfer's, and each connection counts in a copy. After
// each four chunks that have passed on a connection, its next ones are twice as large. So a larger
// chunk that is lost is at most half of what has passed before it, and a path that has become good
// soon has full chunks again.
class ChunkSize {
 public:
  // The coded bytes of a tile at 8 bits per element. A chunk has at least one segment, which
  // usually is a tile, so a lower limit would change little.
  static constexpr int64_t kBytesMin = 64 << 10;
  static constexpr int kPassedToGrow = 4;

  // The most payload of the next chunk, unless one segment has more.
  int64_t bytes() const { return bytes_; }
  bool full() const { return bytes_ == kPayloadBytesMax; }

  // An attempt failed, and nothing of it has arrived.
  void Halve() { bytes_ = std::max(bytes_ / 2, kBytesMin); }
  // A chunk has passed: it was received, or handed to the connection.
  void Passed() {
    if (++passed_ % kPassedToGrow == 0) bytes_ = std::min(bytes_ * 2, kPayloadBytesMax);
  }

 private:
  int64_t bytes_ = kPayloadBytesMax;
  int passed_ = 0;
};

}  // namespace longhaul
