// One block of memory that is cut into pieces, in huge pages where the kernel gives them: products
// walk through panels of many megabytes, which take more small pages than a core knows by heart.
// Each piece begins at a cache line. Called from one thread.
#pragma once

#include <cstdint>
#include <memory>

#include "common/base/huge_pages.h"

namespace longhaul {

class ActivationMemory {
 public:
  // Hands out pieces of `base`, one after another. Without `base` it only counts.
  class Cutter {
   public:
    Cutter() = default;
    explicit Cutter(float* base) : base_(base) {}
    float* Floats(int64_t count) {
      float* const piece = base_ == nullptr ? nullptr : base_ + used_;
      used_ += (count + kLine - 1) / kLine * kLine;
      return piece;
    }
    int64_t used() const { return used_; }

   private:
    static constexpr int64_t kLine = 16;
    float* base_ = nullptr;
    int64_t used_ = 0;
  };

  // Calls cut(cutter) twice: first to count, then, with enough memory, to hand out pieces. The
  // content of earlier pieces is lost. The memory only grows.
  template <typename Cut>
  void CutAnew(Cut&& cut) {
    Cutter counter;
    cut(counter);
    if (counter.used() > size_) {
      memory_.reset();
      size_ = counter.used();
      memory_ = Memory(HugePageAllocator<float>().allocate(size_), Delete{size_});
    }
    Cutter cutter(memory_.get());
    cut(cutter);
  }
  int64_t bytes() const { return size_ * static_cast<int64_t>(sizeof(float)); }

 private:
  struct Delete {
    int64_t size;
    void operator()(float* memory) const { HugePageAllocator<float>().deallocate(memory, size); }
  };
  using Memory = std::unique_ptr<float, Delete>;
  Memory memory_;
  int64_t size_ = 0;
};

}  // namespace longhaul
