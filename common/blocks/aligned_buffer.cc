#include "common/blocks/aligned_buffer.h"

#include <sys/mman.h>

#include "common/base/check.h"

namespace longhaul {

AlignedBuffer::AlignedBuffer(size_t bytes) : bytes_(bytes) {
  constexpr size_t kCacheLine = 64, kHugePage = 2 << 20;
  const bool large = bytes >= 2 * kHugePage;
  const size_t alignment = large ? kHugePage : kCacheLine;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  data_.reset(static_cast<uint8_t*>(std::aligned_alloc(alignment, rounded)),
              [](uint8_t* data) { std::free(data); });
  LH_CHECK(data_ != nullptr || bytes == 0, "out of memory");
  // Only a hint: small pages work too.
  if (large) madvise(data_.get(), rounded, MADV_HUGEPAGE);
}

AlignedBuffer AlignedBuffer::Mapped(size_t bytes) {
  constexpr size_t kMappedMin = 128 << 10;
  if (bytes < kMappedMin) return AlignedBuffer(bytes);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  LH_CHECK(memory != MAP_FAILED, "out of memory");
  const auto unmap = [bytes](uint8_t* data) { munmap(data, bytes); };
  return {std::shared_ptr<uint8_t>(static_cast<uint8_t*>(memory), unmap), bytes};
}

}  // namespace longhaul
