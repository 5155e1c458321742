#include "worker/movement/arena.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longhaul {

absl::StatusOr<Arena> Arena::Create(Movement& movement, Place place, int64_t bytes,
                                    absl::string_view what) {
  std::shared_ptr<std::byte> memory;
  if (bytes > 0) {
    LH_ASSIGN_OR_RETURN(memory, movement.Allocate(place, bytes, what));
  }
  return Arena(place, bytes, std::move(memory));
}

std::unique_ptr<PlacedBuffer> Arena::Take(std::string name, int64_t bytes) {
  const int64_t size = SizeOf(bytes);
  LH_CHECK(used_ + size <= bytes_, "an arena is too small");
  const absl::Span<std::byte> memory(memory_.get() + used_, static_cast<size_t>(bytes));
  used_ += size;
  return std::make_unique<PlacedBuffer>(std::move(name), place_, memory, memory_);
}

}  // namespace longhaul
