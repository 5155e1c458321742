#include "common/config/enum_names.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace longhaul {

std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) names.push_back(absl::AsciiStrToLower(type.value(i)->name()));
  }
  return names;
}

const google::protobuf::EnumValueDescriptor* FindEnumValue(
    const google::protobuf::EnumDescriptor& type, absl::string_view name) {
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0 && absl::EqualsIgnoreCase(type.value(i)->name(), name)) {
      return type.value(i);
    }
  }
  return nullptr;
}

}  // namespace longhaul
