// An allocator for large arrays that are read and written from end to end. It asks the operating
// system for huge pages, which make such passes faster.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

namespace longhaul {

template <typename T>
struct HugePageAllocator {
  using value_type = T;
  static constexpr size_t kPage = size_t{2} << 20;

  HugePageAllocator() = default;
  template <typename U>
  explicit HugePageAllocator(const HugePageAllocator<U>&) {}

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    void* const memory = ::operator new(bytes, Alignment(bytes));
    // Only advice: the result does not matter for correctness.
    if (bytes >= kPage) madvise(memory, bytes / kPage * kPage, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    ::operator delete(memory, Alignment(count * sizeof(T)));
  }
  friend bool operator==(const HugePageAllocator&, const HugePageAllocator&) { return true; }

 private:
  static std::align_val_t Alignment(size_t bytes) {
    return std::align_val_t{bytes >= kPage ? kPage : 64};
  }
};

template <typename T>
using HugePageVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace longhaul
