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
  // Begins `skew` bytes behind the start of a page. Arrays that lie alike in their pages compete
  // for the same sets of the caches, and a load waits for a store to the same place of another
  // page.
  explicit Buffer(size_t bytes, size_t skew = 0) : bytes_(bytes), skew_(skew) {
    data_ = mmap(nullptr, skew + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LH_CHECK(data_ != MAP_FAILED, "no memory");
    madvise(data_, skew + bytes, MADV_HUGEPAGE);
    std::memset(data_, 0, skew + bytes);
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { munmap(data_, skew_ + bytes_); }
  absl::Span<float> floats() const {
    return {reinterpret_cast<float*>(bytes().data()), bytes_ / sizeof(float)};
  }
  absl::Span<uint8_t> bytes() const { return {static_cast<uint8_t*>(data_) + skew_, bytes_}; }

 private:
  void* data_;
  size_t bytes_, skew_;
};

}  // namespace longhaul::benchmark
