// An allocator for large arrays that are read and written from end to end: in huge pages, where the
// kernel gives them.
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
    // Advice: where it is not taken, the pages are small.
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
