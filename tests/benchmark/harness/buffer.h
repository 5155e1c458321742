// Memory for benchmarks: in huge pages where the kernel gives them, touched before use, so that
// ours and the reference work on pages of one kind.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "common/base/check.h"

namespace longhaul::benchmark {

class Buffer {
 public:
  explicit Buffer(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LH_CHECK(data_ != MAP_FAILED, "no memory");
    madvise(data_, bytes, MADV_HUGEPAGE);
    std::memset(data_, 0, bytes);
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { munmap(data_, bytes_); }
  absl::Span<float> floats() const { return {static_cast<float*>(data_), bytes_ / sizeof(float)}; }
  absl::Span<uint8_t> bytes() const { return {static_cast<uint8_t*>(data_), bytes_}; }

 private:
  void* data_;
  size_t bytes_;
};

}  // namespace longhaul::benchmark
