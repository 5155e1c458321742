#include "common/blocks/float_array.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "common/base/check.h"

namespace longhaul {

FloatArray::FloatArray(int64_t elements) : elements_(elements) {
  const size_t bytes = elements_ * sizeof(float);
  // A smaller array comes from the allocator, which uses its memory again for other things.
  constexpr size_t kLarge = 1 << 20;
  if (bytes < kLarge) {
    data_.reset(static_cast<float*>(std::calloc(elements_, sizeof(float))));
    LH_CHECK(data_ != nullptr || bytes == 0, "out of memory");
    return;
  }
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  LH_CHECK(memory != MAP_FAILED, "out of memory");
  // Only a hint: small pages work too.
  madvise(memory, bytes, MADV_HUGEPAGE);
  data_ = {static_cast<float*>(memory), Free{bytes}};
}

FloatArray::FloatArray(absl::Span<const float> values) : FloatArray(int64_t(values.size())) {
  std::copy(values.begin(), values.end(), begin());
}

void FloatArray::Clear() {
  const size_t mapped = data_.get_deleter().mapped_bytes;
  // Private pages that are given back are zero when they are touched again.
  if (mapped > 0 && madvise(data(), mapped, MADV_DONTNEED) == 0) return;
  std::fill(begin(), end(), 0.0f);
}

void FloatArray::Free::operator()(float* data) const {
  if (mapped_bytes > 0) {
    munmap(data, mapped_bytes);
  } else {
    std::free(data);
  }
}

}  // namespace longhaul
