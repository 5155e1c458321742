#include "common/base/nearest_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace longhaul {
namespace {

// Bounds the work for names from outside.
constexpr size_t kComparedMax = 64;
constexpr size_t kListedMax = 16;
// In a shorter name another letter makes another name: "gpu" is no misspelt "cpu".
constexpr size_t kReplacedMin = 4;

// Optimal string alignment distance. A row holds the distances of a prefix of `a` to all prefixes
// of `b`.
size_t EditDistance(absl::string_view a, absl::string_view b, size_t replacement) {
  std::vector<size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1,
                         previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : replacement)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(previous);
    previous.swap(row);
  }
  return previous[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates) {
  if (name.empty() || name.size() > kComparedMax) return "";
  const std::string lower = absl::AsciiStrToLower(name);
  std::string nearest;
  size_t least = kComparedMax;
  for (const std::string& candidate : candidates) {
    const size_t longer = std::max(name.size(), candidate.size());
    const size_t distance =
        EditDistance(lower, absl::AsciiStrToLower(candidate), longer < kReplacedMin ? 2 : 1);
    const size_t allowed = std::max<size_t>(1, longer / 3);
    if (distance <= allowed && distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string NearestNameHint(absl::string_view name, const std::vector<std::string>& candidates) {
  if (const std::string nearest = NearestName(name, candidates); !nearest.empty()) {
    return absl::StrCat("did you mean '", nearest, "'?");
  }
  if (candidates.empty() || candidates.size() > kListedMax) return "";
  return absl::StrCat("one of ", absl::StrJoin(candidates, ", "));
}

}  // namespace longhaul
