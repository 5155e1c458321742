#include "common/config/overrides.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/config/schema_check.h"

namespace longhaul {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// Removes the other members of the oneof of `field`, and `field` itself if it is given under its
// other name.
void MakeRoom(const Descriptor& type, const FieldDescriptor& field, const std::string& name,
              Json& group) {
  std::vector<std::string> displaced;
  for (const auto& [other, value] : group.items()) {
    const FieldDescriptor* given = FindField(type, other);
    if (given == nullptr || other == name) continue;
    const auto* oneof = field.real_containing_oneof();
    if (given == &field || (oneof != nullptr && given->real_containing_oneof() == oneof)) {
      displaced.push_back(other);
    }
  }
  for (const std::string& other : displaced) group.erase(other);
}

// The field that `names` lead to, or null.
const FieldDescriptor* FieldAt(const Descriptor& type, const std::vector<std::string>& names) {
  const Descriptor* message = &type;
  const FieldDescriptor* field = nullptr;
  for (const std::string& name : names) {
    field = message == nullptr ? nullptr : FindField(*message, name);
    message = field == nullptr ? nullptr : field->message_type();
  }
  return field;
}

// Text as people write it is no YAML: "[old] corpus", "Vol: 1", 2026. In quotes it may be.
bool IsPlainText(const FieldDescriptor* field, absl::string_view text) {
  return field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
         !field->is_repeated() && !absl::StartsWith(text, "\"") && !absl::StartsWith(text, "'");
}

// Parses the value of an override. It collects violations of its own, so that a syntax error names
// the path.
bool ParseValue(const std::string& path, const std::string& text, Json& value,
                ViolationList& violations) {
  ViolationList found;
  Json wrapped = ParseYaml(absl::StrCat("[", text, "]"), found);
  if (found.empty() && wrapped.size() == 1) {
    value = std::move(wrapped[0]);
    return true;
  }
  // Plain text may contain characters that YAML's flow style forbids, for example a path with a
  // comma.
  if (text.find_first_of("[]{}\n") == std::string::npos) {
    value = text;
    return true;
  }
  const bool deep = std::any_of(
      found.all().begin(), found.all().end(),
      [](const SpecViolation& violation) { return violation.description == NestedTooDeep(); });
  violations.Invalid(path, deep ? absl::StrCat("--set: ", NestedTooDeep())
                                : absl::StrCat("--set: '", text, "' is not one YAML value"));
  return false;
}

}  // namespace

void ApplyOverride(const Descriptor& type, const std::string& assignment, Json& document,
                   ViolationList& violations) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    violations.Invalid("", absl::StrCat("--set ", assignment, ": expected path=value"),
                       "for example sync.h=100");
    return;
  }
  const std::string path = assignment.substr(0, equals);
  const std::string text = assignment.substr(equals + 1);
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  Json value;
  if (IsPlainText(FieldAt(type, names), text)) {
    value = text;
  } else if (!ParseValue(path, text, value, violations)) {
    return;
  }
  const Descriptor* message = &type;
  Json* group = &document;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || names.size() > kYamlDepthMax) {
      violations.Invalid(path, "--set: found an empty name or a path that is too long");
      return;
    }
    if (group->is_null()) *group = Json::object();
    if (!group->is_object()) {
      violations.Invalid(
          path, absl::StrCat("--set: ", absl::StrJoin(names.begin(), names.begin() + i, "."),
                             " is not a group of fields"));
      return;
    }
    const FieldDescriptor* field = message == nullptr ? nullptr : FindField(*message, names[i]);
    if (field != nullptr) MakeRoom(*message, *field, names[i], *group);
    message = field == nullptr ? nullptr : field->message_type();
    group = &(*group)[names[i]];
  }
  *group = std::move(value);
}

}  // namespace longhaul
