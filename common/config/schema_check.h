// Checks a JSON value against a proto message type, and brings it into the form that protobuf's own
// JSON parser takes. That parser still makes the message. This check explains mistakes in plain
// words.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/config/violation_list.h"
#include "common/config/yaml_json.h"
#include "google/protobuf/descriptor.h"

namespace longhaul {

// Reports each unknown field (with UnknownFieldHint), value of a wrong type, unknown enum
// value, and second member of a oneof. Also reports each zero that would silently mean a default
// other than zero (`zero_default` returns the default of a path, or ""). Fields may have the
// proto's name or camelCase, enum values any case; both become the proto's name. Nulls are dropped:
// the field counts as left out.
void CheckAgainstSchema(const google::protobuf::Descriptor& type,
                        absl::string_view (*zero_default)(absl::string_view path), Json& value,
                        ViolationList& violations);

// What was meant by a name that the group at `path`, a `type`, does not have: the nearest name in
// it, else the fields of this name below it, else those anywhere in `root` ("did you mean
// 'train.batch'?"), else its names.
std::string UnknownFieldHint(const google::protobuf::Descriptor& root,
                             const google::protobuf::Descriptor& type, absl::string_view path,
                             absl::string_view name);

// The field with that name (or camelCase name), or null.
const google::protobuf::FieldDescriptor* FindField(const google::protobuf::Descriptor& type,
                                                   absl::string_view name);

}  // namespace longhaul
