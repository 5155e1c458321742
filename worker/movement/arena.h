// One allocation, cut into buffers. Allocating pinned host memory piece by piece would be slow.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/movement/movement.h"

namespace longhaul {

// Called from one thread. Buffers keep the memory alive, and may outlive the arena.
class Arena {
 public:
  // Errors: those of Movement::Allocate.
  static absl::StatusOr<Arena> Create(Movement& movement, MemorySide side, int64_t bytes,
                                      absl::string_view what);

  // How much of the arena a buffer takes.
  static int64_t SizeOf(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  // The arena must have room for SizeOf(bytes).
  std::unique_ptr<VersionedBuffer> Take(std::string name, int64_t bytes);

  MemorySide side() const { return side_; }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr int64_t kAlignment = 256;
  Arena(MemorySide side, int64_t bytes, std::shared_ptr<std::byte> memory)
      : side_(side), bytes_(bytes), memory_(std::move(memory)) {}

  MemorySide side_;
  int64_t bytes_, used_ = 0;
  std::shared_ptr<std::byte> memory_;
};

}  // namespace longhaul
