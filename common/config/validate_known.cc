#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/enum_names.h"
#include "common/config/validate.h"
#include "google/protobuf/unknown_field_set.h"

namespace longhaul {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void RequireKnownEnum(const FieldDescriptor& field, int number, const std::string& path,
                      ViolationList& violations) {
  if (field.enum_type()->FindValueByNumber(number) != nullptr) return;
  violations.Invalid(path, absl::StrCat("found ", number, ", which is not a known value"),
                     absl::StrCat("one of ", absl::StrJoin(EnumNames(*field.enum_type()), ", ")));
}

void RequireKnownBelow(const Message& message, const std::string& parent,
                       ViolationList& violations);

// Checks one value: the field's, or its element `index` if the field is a list.
void RequireKnownValue(const Message& message, const FieldDescriptor& field,
                       std::optional<int> index, const std::string& path,
                       ViolationList& violations) {
  const Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    RequireKnownBelow(index.has_value() ? reflection.GetRepeatedMessage(message, &field, *index)
                                        : reflection.GetMessage(message, &field),
                      path, violations);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    RequireKnownEnum(field,
                     index.has_value() ? reflection.GetRepeatedEnumValue(message, &field, *index)
                                       : reflection.GetEnumValue(message, &field),
                     path, violations);
  }
}

void RequireKnownBelow(const Message& message, const std::string& parent,
                       ViolationList& violations) {
  const Reflection& reflection = *message.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    violations.NotBuilt(
        parent.empty() ? "spec" : parent,
        absl::StrCat("field number ", unknown.field(i).number(), " is not known to this version"),
        "use a client of the coordinator's version");
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path =
        parent.empty() ? field->name() : absl::StrCat(parent, ".", field->name());
    if (!field->is_repeated()) {
      RequireKnownValue(message, *field, std::nullopt, path, violations);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i)
      RequireKnownValue(message, *field, i, absl::StrCat(path, "[", i, "]"), violations);
  }
}

}  // namespace

void RequireKnown(const Message& spec, ViolationList& violations) {
  RequireKnownBelow(spec, "", violations);
}

}  // namespace longhaul
