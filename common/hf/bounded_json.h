// Parses JSON of a file from outside into a value of bounded size and depth.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace longhaul {

// INVALID_ARGUMENT: larger than `bytes_max`; not JSON; not an object; deeper than eight levels.
// Not an ordered_json: that looks at all keys of an object for each new one.
inline absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, int64_t bytes_max) {
  using Json = nlohmann::json;
  constexpr int kDepthMax = 8;
  if (static_cast<int64_t>(text.size()) > bytes_max)
    return absl::InvalidArgumentError(absl::StrCat("is larger than ", bytes_max, " bytes"));
  bool deep = false;
  Json json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t, Json&) {
        deep = deep || depth > kDepthMax;
        // Deeper values are not kept.
        return depth <= kDepthMax;
      },
      /*allow_exceptions=*/false);
  if (deep) return absl::InvalidArgumentError("is nested deeper than 8 levels");
  if (!json.is_object()) return absl::InvalidArgumentError("is not a JSON object");
  return json;
}

}  // namespace longhaul
