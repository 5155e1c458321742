// Enum values as people write them: in lower case.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace longhaul {

// The names that a spec may give, in the order of their numbers; without the *_UNSPECIFIED zero.
std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& type);

// The value of that name in any case, or null. The *_UNSPECIFIED zero has none.
const google::protobuf::EnumValueDescriptor* FindEnumValue(
    const google::protobuf::EnumDescriptor& type, absl::string_view name);

}  // namespace longhaul
