// Reads YAML that people write, for those that make values of it.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "common/config/violation_list.h"

namespace YAML {
class Node;
}  // namespace YAML

namespace longhaul {

inline constexpr size_t kYamlBytesMax = 1 << 20;

// Calls `use` with the document, and with the list for what it finds. yaml-cpp reports by
// exceptions; this is the only place where it parses, and `use` may throw them, too. False, with
// violations: `use` found some; the text has more than kYamlBytesMax, is not UTF-8, is not YAML
// (with line and column) or has several documents.
bool ReadYaml(absl::string_view text,
              absl::FunctionRef<void(const YAML::Node&, ViolationList&)> use,
              ViolationList& violations);

}  // namespace longhaul
