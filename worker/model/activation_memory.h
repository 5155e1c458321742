// One block of memory that is cut into pieces. Each piece begins at a cache line. Called from one
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

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
      memory_.reset(static_cast<float*>(
          ::operator new (counter.used() * sizeof(float), std::align_val_t{kAlignment})));
      size_ = counter.used();
    }
    Cutter cutter(memory_.get());
    cut(cutter);
  }
  int64_t bytes() const { return size_ * static_cast<int64_t>(sizeof(float)); }

 private:
  static constexpr size_t kAlignment = 4096;
  struct Delete {
    void operator()(float* memory) const {
      ::operator delete (memory, std::align_val_t{kAlignment});
    }
  };
  std::unique_ptr<float, Delete> memory_;
  int64_t size_ = 0;
};

}  // namespace longhaul
