#include "common/base/compute_environment.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace longhaul {
namespace {

bool ConcernsThreads(absl::string_view name) {
  // It only shows settings.
  if (absl::StartsWith(name, "OMP_DISPLAY_")) return false;
  for (const absl::string_view prefix : {"OMP_", "GOMP_", "KMP_"}) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  for (const absl::string_view other :
       {"MKL_NUM_THREADS", "MKL_DOMAIN_NUM_THREADS", "MKL_DYNAMIC", "OPENBLAS_NUM_THREADS",
        "GOTO_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS"}) {
    if (name == other) return true;
  }
  return false;
}

absl::string_view NameOf(absl::string_view variable) {
  return variable.substr(0, variable.find('='));
}

}  // namespace

ComputeEnvironment ComputeEnvironmentOf(const char* const* inherited,
                                        std::vector<std::string> own) {
  ComputeEnvironment result{.variables = std::move(own)};
  std::set<std::string> names;
  for (const std::string& variable : result.variables) names.emplace(NameOf(variable));
  for (; *inherited != nullptr; ++inherited) {
    const absl::string_view name = NameOf(*inherited);
    // The first one of a name counts, as for getenv.
    if (!names.emplace(name).second) continue;
    if (ConcernsThreads(name)) {
      result.removed.emplace_back(name);
    } else {
      result.variables.emplace_back(*inherited);
    }
  }
  std::sort(result.removed.begin(), result.removed.end());
  return result;
}

std::vector<char*> PointersTo(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace longhaul
