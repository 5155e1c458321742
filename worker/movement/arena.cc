#include "worker/movement/arena.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longhaul {

absl::StatusOr<Arena> Arena::Create(Movement& movement, MemorySide side, int64_t bytes,
                                    absl::string_view what) {
  std::shared_ptr<std::byte> memory;
  if (bytes > 0) {
    LH_ASSIGN_OR_RETURN(memory, movement.Allocate(side, bytes, what));
  }
  return Arena(side, bytes, std::move(memory));
}

std::unique_ptr<VersionedBuffer> Arena::Take(std::string name, int64_t bytes) {
  const int64_t size = SizeOf(bytes);
  LH_CHECK(used_ + size <= bytes_, "an arena is too small");
  const absl::Span<std::byte> memory(memory_.get() + used_, static_cast<size_t>(bytes));
  used_ += size;
  return std::make_unique<VersionedBuffer>(std::move(name), side_, memory, memory_);
}

}  // namespace longhaul
