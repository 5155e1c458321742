// Reads YAML that people write, for those that make values of it.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "common/config/violation_list.h"

namespace YAML {
class Node;
}  // namespace YAML

namespace longhaul {

inline constexpr size_t kYamlBytesMax = 1 << 20;
// Of values that are made of it. The parser itself goes somewhat deeper.
inline constexpr int kYamlDepthMax = 32;

// What is said of values beyond kYamlDepthMax.
std::string NestedTooDeep();

// Calls `use` with the document, and with the list for what it finds. yaml-cpp reports by
// exceptions; this is the only place where it parses, and `use` may throw them, too. False, with
// violations: `use` found some; the text has more than kYamlBytesMax, is not UTF-8, is not YAML
// (with line and column), is nested deeper than the parser goes or has several documents.
bool ReadYaml(absl::string_view text,
              absl::FunctionRef<void(const YAML::Node&, ViolationList&)> use,
              ViolationList& violations);

}  // namespace longhaul
