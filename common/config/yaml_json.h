// Converts the YAML that people write to JSON values.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/config/violation_list.h"
#include "common/config/yaml_document.h"
#include "nlohmann/json.hpp"

namespace longhaul {

using Json = nlohmann::ordered_json;

// Counted after aliases are expanded, so that nested aliases cannot fill the memory.
inline constexpr int kYamlValuesMax = 10000;

// Plain scalars get the types of YAML 1.2's core schema: null, true, 12, 1e-3. Everything else is
// text, also .nan and .inf; quoted scalars are text. An empty document is an empty object.
// Violations, with a null as result: those of ReadYaml, keys that are given twice, and documents
// beyond kYamlDepthMax and the bound above.
Json ParseYaml(absl::string_view text, ViolationList& violations);

}  // namespace longhaul
