// Counts the Traffic of a communicator. Thread-safe. The formulas are those of the direct
// algorithm. All implementations use them, so that their counters mean the same.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/types/span.h"
#include "worker/collective/communicator.h"

namespace longhaul {

class TrafficMeter {
 public:
  void Add(int64_t sent_bytes, int64_t received_bytes) {
    if (paused_) return;
    sent_bytes_.fetch_add(sent_bytes, std::memory_order_relaxed);
    received_bytes_.fetch_add(received_bytes, std::memory_order_relaxed);
    operations_.fetch_add(1, std::memory_order_relaxed);
  }

  // While it is paused, nothing counts. For the thread that calls the collectives.
  void SetPaused(bool paused) { paused_ = paused; }
  // `total_bytes` are divided over the ranks, `own_bytes` of them are this rank's part, and `size`
  // is the number of ranks.
  void AddReduceScatter(int64_t total_bytes, int64_t own_bytes, int size) {
    Add(total_bytes - own_bytes, own_bytes * (size - 1));
  }
  void AddAllGather(int64_t total_bytes, int64_t own_bytes, int size) {
    Add(own_bytes * (size - 1), total_bytes - own_bytes);
  }
  // A reduce-scatter followed by an all-gather.
  void AddAllReduce(int64_t total_bytes, int64_t own_bytes, int size) {
    const int64_t bytes = total_bytes - own_bytes + own_bytes * (size - 1);
    Add(bytes, bytes);
  }
  void AddBroadcast(int64_t bytes, bool is_root, int size) {
    if (is_root) {
      Add(bytes * (size - 1), 0);
    } else {
      Add(0, bytes);
    }
  }
  void AddAllToAll(absl::Span<const Part> send_parts, absl::Span<const Part> receive_parts,
                   int rank) {
    int64_t sent_bytes = 0, received_bytes = 0;
    for (const Part& part : send_parts) sent_bytes += part.size;
    for (const Part& part : receive_parts) received_bytes += part.size;
    Add(sent_bytes - send_parts[rank].size, received_bytes - receive_parts[rank].size);
  }

  Traffic Read() const {
    return {sent_bytes_.load(std::memory_order_relaxed),
            received_bytes_.load(std::memory_order_relaxed),
            operations_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<int64_t> sent_bytes_ = 0, received_bytes_ = 0, operations_ = 0;
  bool paused_ = false;
};

}  // namespace longhaul
