// Enum values in the form that people write: in lower case.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace longhaul {

// The names that a spec may use, in the order of their numbers, without the *_UNSPECIFIED zero.
std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& type);

// The value with that name in any case, or null. The *_UNSPECIFIED zero is never found.
const google::protobuf::EnumValueDescriptor* FindEnumValue(
    const google::protobuf::EnumDescriptor& type, absl::string_view name);

}  // namespace longhaul
