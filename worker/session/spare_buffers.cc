#include "worker/session/spare_buffers.h"

#include <algorithm>
#include <utility>

namespace longhaul::session {

std::vector<float> SpareBuffers::Take(int64_t elements) {
  std::vector<float> buffer;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = std::find_if(spare_.begin(), spare_.end(), [&](const auto& spare) {
      return static_cast<int64_t>(spare.capacity()) >= elements;
    });
    if (found != spare_.end()) {
      buffer = std::move(*found);
      spare_.erase(found);
    }
  }
  buffer.resize(elements);
  return buffer;
}

void SpareBuffers::Give(std::vector<float> buffer) {
  if (buffer.capacity() == 0) return;
  absl::MutexLock lock(&mutex_);
  spare_.push_back(std::move(buffer));
  if (spare_.size() <= kSpareMax) return;
  // The smallest serves the fewest fragments.
  spare_.erase(std::min_element(spare_.begin(), spare_.end(), [](const auto& a, const auto& b) {
    return a.capacity() < b.capacity();
  }));
}

}  // namespace longhaul::session
