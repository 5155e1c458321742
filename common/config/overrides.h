// `--set path=value` changes single values of a document before it is checked.
#pragma once

#include <string>

#include "common/config/violation_list.h"
#include "common/config/yaml_json.h"
#include "google/protobuf/descriptor.h"

namespace longhaul {

// Sets the value at `path` (field names joined by dots). Where the field is text,
// `value` is that text, unless it begins with a quote. Otherwise it is read as YAML, so it may be a
// list, or a group in braces. Missing groups of the path are made. Another member of the same oneof
// is removed first: data.tokens.path replaces data.text. Violations: no '=', an empty name, a path
// through a value that is not a group, a value that is not YAML. CheckAgainstSchema checks whether
// names and values are right.
void ApplyOverride(const google::protobuf::Descriptor& type, const std::string& assignment,
                   Json& document, ViolationList& violations);

}  // namespace longhaul
