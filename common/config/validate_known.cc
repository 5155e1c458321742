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
  violations.Invalid(path, absl::StrCat("found ", number, ", which names nothing"),
                     absl::StrCat("one of ", absl::StrJoin(EnumNames(*field.enum_type()), ", ")));
}

// JobSpec has no repeated messages and no repeated enums.
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
    if (field->is_repeated()) continue;
    const std::string path =
        parent.empty() ? field->name() : absl::StrCat(parent, ".", field->name());
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      RequireKnownBelow(reflection.GetMessage(message, field), path, violations);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      RequireKnownEnum(*field, reflection.GetEnumValue(message, field), path, violations);
    }
  }
}

}  // namespace

void RequireKnown(const Message& spec, ViolationList& violations) {
  RequireKnownBelow(spec, "", violations);
}

}  // namespace longhaul
