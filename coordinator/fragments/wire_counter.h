// Counts the bytes of a job's bulk exchange in one direction. Streams are added as they end.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/rpc/wire_bytes.h"

namespace longhaul::coordinator {

// Thread-safe.
class WireCounter {
 public:
  void Add(const WireBytes& bytes) {
    payload_ += bytes.payload;
    total_ += bytes.total;
  }
  WireBytes Value() const { return {.payload = payload_, .total = total_}; }

 private:
  std::atomic<int64_t> payload_ = 0, total_ = 0;
};

}  // namespace longhaul::coordinator
