// Checks a JSON value against a proto message type, and brings it into the form that protobuf's own
// JSON parser takes. That parser stays the one that makes messages; this one says what is wrong in
// words that people can use.
#pragma once

#include "common/config/violation_list.h"
#include "common/config/yaml_json.h"
#include "google/protobuf/descriptor.h"

namespace longhaul {

// Reports each unknown field (with the nearest valid one), ill-typed value, unknown enum value,
// second member of a oneof, and each zero that would silently mean a default that is not zero
// (`zero_default` gives it for a path, or ""). Fields may be named as in the proto or in camelCase;
// both become the proto's name. Enum values in any case become the proto's. Nulls are dropped: the
// field counts as left out.
void CheckAgainstSchema(const google::protobuf::Descriptor& type,
                        absl::string_view (*zero_default)(absl::string_view path), Json& value,
                        ViolationList& violations);

// The field of that name (or camelCase name), or null.
const google::protobuf::FieldDescriptor* FindField(const google::protobuf::Descriptor& type,
                                                   absl::string_view name);

}  // namespace longhaul
