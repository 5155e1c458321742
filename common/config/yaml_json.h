// YAML as people write it -> JSON values.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/config/violation_list.h"
#include "nlohmann/json.hpp"

namespace longhaul {

using Json = nlohmann::ordered_json;

inline constexpr size_t kYamlBytesMax = 1 << 20;
inline constexpr int kYamlDepthMax = 32;
inline constexpr int kYamlValuesMax =
    10000;  // With aliases expanded: a bomb of aliases stops here.

// Plain scalars get the types of YAML 1.2's core schema (null, true, 12, 1e-3; everything else is
// text, so are .nan and .inf); quoted ones are text. An empty document is an empty object. Syntax
// errors (with line and column), keys given twice, and documents beyond the bounds above are
// violations; the result is then null.
Json ParseYaml(absl::string_view text, ViolationList& violations);

}  // namespace longhaul
