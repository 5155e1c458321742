// `--set path=value`: changes single values of a document before it is checked.
#pragma once

#include <string>

#include "common/config/violation_list.h"
#include "common/config/yaml_json.h"
#include "google/protobuf/descriptor.h"

namespace longhaul {

// Sets the value at `path` (names joined by dots, of the message type); `value` is read as YAML, so
// it may be a list or a group in braces. Groups on the way are made. Another member of the same
// oneof is taken out first: data.tokens.path replaces data.text. Violations: no '=', an empty name,
// a path through a value that is not a group, a value that is not YAML. Whether names and values
// are right is for CheckAgainstSchema.
void ApplyOverride(const google::protobuf::Descriptor& type, const std::string& assignment,
                   Json& document, ViolationList& violations);

}  // namespace longhaul
