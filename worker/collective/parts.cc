#include "worker/collective/parts.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/checked_math.h"

namespace longhaul {

absl::Status ContiguousParts(absl::Span<const int64_t> sizes, std::vector<Part>* parts) {
  parts->clear();
  int64_t offset = 0;
  for (const int64_t size : sizes) {
    const std::optional<int64_t> end = CheckedAdd(offset, size);
    if (size < 0 || !end.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("part ", parts->size(), " has size ", size));
    }
    parts->push_back({offset, size});
    offset = *end;
  }
  return absl::OkStatus();
}

std::vector<Part> EvenParts(int64_t total, int count) {
  std::vector<Part> parts;
  parts.reserve(count);
  int64_t offset = 0;
  for (int i = 0; i < count; ++i) {
    const int64_t size = total / count + (i < total % count ? 1 : 0);
    parts.push_back({offset, size});
    offset += size;
  }
  return parts;
}

std::vector<int64_t> SizesOf(absl::Span<const Part> parts) {
  std::vector<int64_t> sizes;
  for (const Part& part : parts) sizes.push_back(part.size);
  return sizes;
}

absl::Status ValidateParts(absl::Span<const Part> parts, int count, int64_t total) {
  if (static_cast<int64_t>(parts.size()) != count) {
    return absl::InvalidArgumentError(absl::StrCat(parts.size(), " parts for ", count, " ranks"));
  }
  for (int i = 0; i < count; ++i) {
    const Part& part = parts[i];
    if (part.offset < 0 || part.size < 0 || part.offset > total ||
        part.size > total - part.offset) {
      return absl::InvalidArgumentError(absl::StrCat("part ", i, " at ", part.offset, " of size ",
                                                     part.size, " is outside a buffer of ", total));
    }
  }
  return absl::OkStatus();
}

}  // namespace longhaul
