// A fixed number of floats that begin as zeros. A large array is fresh memory of the kernel, in
// huge pages if possible. To make one takes no time; the first write of each page does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"

namespace longhaul {

// A value. A moved-from array is empty. Const access from several threads is safe. The process ends
// if there is no memory.
class FloatArray {
 public:
  using value_type = float;
  using iterator = float*;
  using const_iterator = const float*;

  FloatArray() = default;
  explicit FloatArray(int64_t elements);
  explicit FloatArray(absl::Span<const float> values);
  FloatArray(const FloatArray& other) : FloatArray(absl::MakeConstSpan(other)) {}
  FloatArray(FloatArray&& other) noexcept
      : data_(std::move(other.data_)), elements_(std::exchange(other.elements_, 0)) {}
  FloatArray& operator=(FloatArray other) noexcept {
    data_ = std::move(other.data_);
    elements_ = std::exchange(other.elements_, 0);
    return *this;
  }

  // Sets all elements to zero. A large array gives its memory back.
  void Clear();

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  size_t size() const { return elements_; }
  float& operator[](size_t i) { return data()[i]; }
  float operator[](size_t i) const { return data()[i]; }
  float* begin() { return data(); }
  float* end() { return data() + size(); }
  const float* begin() const { return data(); }
  const float* end() const { return data() + size(); }

 private:
  struct Free {
    // 0 if the memory came from the allocator.
    size_t mapped_bytes;
    void operator()(float* data) const;
  };
  std::unique_ptr<float[], Free> data_;
  size_t elements_ = 0;
};

}  // namespace longhaul
