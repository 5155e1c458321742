// A block of bytes of fixed size, aligned to a cache line (and to any SIMD width), not initialised.
// Its memory may also have another owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/types/span.h"

namespace longhaul {

// Movable; a moved-from buffer is empty. Const access from several threads is safe.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Large buffers request huge pages. They are written once from end to end, and page faults of 4
  // KiB would cost as much time as that. The process ends if there is no memory. The caller must
  // bound sizes that come from a peer.
  explicit AlignedBuffer(size_t bytes);
  // With pages of its own, which go back to the system at once. For many buffers of 100 KiB and
  // more that live while they are sent: among the small objects of the heap they would leave holes.
  static AlignedBuffer Mapped(size_t bytes);
  // `memory` holds so many bytes, with the same alignment, for example pinned memory that a device
  // writes.
  AlignedBuffer(std::shared_ptr<uint8_t> memory, size_t bytes)
      : data_(std::move(memory)), bytes_(bytes) {}
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::move(other.data_)), bytes_(std::exchange(other.bytes_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  uint8_t* data() { return data_.get(); }
  const uint8_t* data() const { return data_.get(); }
  size_t size() const { return bytes_; }
  absl::Span<uint8_t> span() { return {data(), size()}; }
  absl::Span<const uint8_t> span() const { return {data(), size()}; }

 private:
  // Never shared by two buffers.
  std::shared_ptr<uint8_t> data_;
  size_t bytes_ = 0;
};

}  // namespace longhaul
