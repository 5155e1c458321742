#include "common/config/schema_check.h"

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/escaped_text.h"
#include "common/base/nearest_name.h"
#include "common/base/utf8.h"
#include "common/config/enum_names.h"

namespace longhaul {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;

// How much of a wrong value a message shows.
constexpr size_t kShownMax = 60;
// How many fields of other groups a hint names; and how deep groups lie in each other.
constexpr size_t kElsewhereMax = 6;
constexpr int kGroupsMax = 8;

std::string Shown(const Json& value) {
  if (value.is_object()) return "a group of fields";
  if (value.is_array()) return "a list";
  const std::string text =
      value.is_string() ? EscapedText(value.get_ref<const std::string&>()) : value.dump();
  const std::string cut =
      text.size() > kShownMax ? absl::StrCat(ClipUtf8(text, kShownMax), "...") : text;
  return value.is_string() ? absl::StrCat("text '", cut, "'") : cut;
}

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

// A duration or a time is none: it is written as text.
bool IsGroup(const FieldDescriptor& field) {
  return field.message_type() != nullptr &&
         field.message_type()->file()->package() != "google.protobuf";
}

// Fields of that name anywhere below the message, but not within lists, in the order of the schema.
void AddPathsOf(absl::string_view name, const Descriptor& type, const std::string& prefix,
                int depth, std::vector<std::string>& paths) {
  for (int i = 0; i < type.field_count() && depth < kGroupsMax; ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string path = absl::StrCat(prefix, field.name());
    if (field.name() == name) paths.push_back(path);
    if (IsGroup(field) && !field.is_repeated())
      AddPathsOf(name, *field.message_type(), path + ".", depth + 1, paths);
  }
}

struct IntegerKind {
  const char* name;
  // `high` is the first value above the range. It is exact as a double.
  double low, high;
};

IntegerKind KindOf(FieldDescriptor::CppType type) {
  switch (type) {
    case FieldDescriptor::CPPTYPE_INT32:
      return {"a whole number of 32 bits", -0x1p31, 0x1p31};
    case FieldDescriptor::CPPTYPE_INT64:
      return {"a whole number of 64 bits", -0x1p63, 0x1p63};
    case FieldDescriptor::CPPTYPE_UINT32:
      return {"a whole number of 32 bits, not negative", 0, 0x1p32};
    default:
      return {"a whole number of 64 bits, not negative", 0, 0x1p64};
  }
}

// Whether `value` is a number of the kind. A text counts if all of it is a number, since proto JSON
// writes 64-bit numbers as text.
bool IsInteger(const IntegerKind& kind, const Json& value) {
  double number;
  if (value.is_number_unsigned()) {
    // A comparison as double rounds numbers near 2^63 and 2^64, which could accept or refuse a
    // wrong one.
    const uint64_t exact = value.get<uint64_t>();
    return kind.high == 0x1p64 || exact < static_cast<uint64_t>(kind.high);
  }
  if (value.is_number_integer()) {
    const int64_t exact = value.get<int64_t>();
    return exact >= 0 ? IsInteger(kind, Json(static_cast<uint64_t>(exact)))
                      : static_cast<double>(exact) >= kind.low;
  }
  if (value.is_number_float()) {
    number = value.get<double>();
    return number == std::trunc(number) && number >= kind.low && number < kind.high;
  }
  int64_t negative;
  uint64_t positive;
  if (!value.is_string()) return false;
  const std::string& text = value.get_ref<const std::string&>();
  if (absl::StripAsciiWhitespace(text).size() != text.size()) return false;
  if (absl::SimpleAtoi(text, &positive)) return IsInteger(kind, Json(positive));
  return absl::SimpleAtoi(text, &negative) && IsInteger(kind, Json(negative));
}

bool IsZero(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>() == "0";
  return value.is_number() && value.get<double>() == 0;
}

class SchemaChecker {
 public:
  SchemaChecker(absl::string_view (*zero_default)(absl::string_view), ViolationList& violations)
      : zero_default_(zero_default), violations_(violations) {}

  void Check(const Descriptor& type, Json& value) {
    root_ = &type;
    CheckMessage(type, "", value);
  }

 private:
  void CheckMessage(const Descriptor& type, const std::string& path, Json& value) {
    if (!value.is_object()) {
      return IllTyped(path, value, "a group of fields",
                      absl::StrCat(path.empty() ? "" : path + ".", type.field(0)->name(), ", ..."));
    }
    Json checked = Json::object();
    std::map<const OneofDescriptor*, std::string> chosen;
    for (auto& [name, child] : value.items()) {
      const std::string child_path = path.empty() ? name : absl::StrCat(path, ".", name);
      const FieldDescriptor* field = FindField(type, name);
      if (field == nullptr) {
        violations_.Invalid(child_path, "unknown field",
                            UnknownFieldHint(*root_, type, path, name));
        continue;
      }
      if (child.is_null()) continue;
      if (checked.contains(field->name())) {
        violations_.Invalid(child_path, "is given twice");
        continue;
      }
      CheckOneof(*field, path, chosen);
      CheckField(*field, child_path, child);
      checked[field->name()] = std::move(child);
    }
    value = std::move(checked);
  }

  void CheckOneof(const FieldDescriptor& field, const std::string& path,
                  std::map<const OneofDescriptor*, std::string>& chosen) {
    const OneofDescriptor* oneof = field.real_containing_oneof();
    if (oneof == nullptr) return;
    const auto [entry, first] = chosen.emplace(oneof, field.name());
    if (first) return;
    violations_.Invalid(path, absl::StrFormat("found both %s and %s, expected one of them",
                                              entry->second, field.name()));
  }

  void CheckField(const FieldDescriptor& field, const std::string& path, Json& value) {
    if (!field.is_repeated()) return CheckValue(field, path, value);
    if (!value.is_array()) return IllTyped(path, value, "a list", "[...]");
    for (size_t i = 0; i < value.size(); ++i) {
      CheckValue(field, absl::StrCat(path, "[", i, "]"), value[i]);
    }
  }

  void CheckValue(const FieldDescriptor& field, const std::string& path, Json& value) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (!IsGroup(field)) {
          return Require(value.is_string(), path, value, "a duration or time as text",
                         "for example 30s");
        }
        return CheckMessage(*field.message_type(), path, value);
      case FieldDescriptor::CPPTYPE_ENUM:
        return CheckEnum(field, path, value);
      case FieldDescriptor::CPPTYPE_BOOL:
        return Require(value.is_boolean(), path, value, "true or false", "");
      case FieldDescriptor::CPPTYPE_STRING:
        return Require(value.is_string(), path, value, "text",
                       value.is_structured() ? "" : "put it in quotes");
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_FLOAT:
        Require(value.is_number(), path, value, "a finite number", "");
        break;
      default: {
        const IntegerKind kind = KindOf(field.cpp_type());
        Require(IsInteger(kind, value), path, value, kind.name, "");
      }
    }
    CheckZero(field, path, value);
  }

  void CheckEnum(const FieldDescriptor& field, const std::string& path, Json& value) {
    const std::vector<std::string> names = EnumNames(*field.enum_type());
    if (!value.is_string()) {
      return IllTyped(path, value, "a name", NearestNameHint("", names));
    }
    const std::string& text = value.get_ref<const std::string&>();
    if (const auto* named = FindEnumValue(*field.enum_type(), text); named != nullptr) {
      value = named->name();
      return;
    }
    violations_.Invalid(
        path, absl::StrCat("found ", Shown(value), ", expected ", absl::StrJoin(names, ", ")),
        NearestName(text, names).empty() ? "" : NearestNameHint(text, names));
  }

  // In proto3 a zero without presence means that the field is not set, but a user who writes zero
  // means zero.
  void CheckZero(const FieldDescriptor& field, const std::string& path, const Json& value) {
    if (field.has_presence() || field.is_repeated() || !IsZero(value)) return;
    const absl::string_view meaning = zero_default_(path);
    if (meaning.empty()) return;
    violations_.Invalid(path, "found 0, which is not possible here",
                        absl::StrFormat("leave the field out for its default, %s", meaning));
  }

  void Require(bool ok, const std::string& path, const Json& value, const char* expected,
               const std::string& hint) {
    if (!ok) IllTyped(path, value, expected, hint);
  }

  void IllTyped(const std::string& path, const Json& value, const char* expected,
                const std::string& hint) {
    violations_.Invalid(path, absl::StrFormat("found %s, expected %s", Shown(value), expected),
                        hint);
  }

  absl::string_view (*const zero_default_)(absl::string_view);
  ViolationList& violations_;
  const Descriptor* root_ = nullptr;
};

}  // namespace

const FieldDescriptor* FindField(const Descriptor& type, absl::string_view name) {
  const std::string key(name);
  const FieldDescriptor* field = type.FindFieldByName(key);
  for (int i = 0; field == nullptr && i < type.field_count(); ++i) {
    if (type.field(i)->json_name() == key) field = type.field(i);
  }
  return field;
}

std::string UnknownFieldHint(const Descriptor& root, const Descriptor& type, absl::string_view path,
                             absl::string_view name) {
  const std::vector<std::string> here = FieldNames(type);
  if (!NearestName(name, here).empty()) return NearestNameHint(name, here);
  std::vector<std::string> elsewhere, within;
  AddPathsOf(name, root, "", 0, elsewhere);
  for (const std::string& found : elsewhere) {
    if (absl::StartsWith(found, absl::StrCat(path, "."))) within.push_back(found);
  }
  const std::vector<std::string>& meant = within.empty() ? elsewhere : within;
  if (meant.size() == 1) return absl::StrCat("did you mean '", meant[0], "'?");
  if (meant.empty() || meant.size() > kElsewhereMax) return NearestNameHint(name, here);
  return absl::StrCat("did you mean one of ", absl::StrJoin(meant, ", "), "?");
}

void CheckAgainstSchema(const Descriptor& type,
                        absl::string_view (*zero_default)(absl::string_view), Json& value,
                        ViolationList& violations) {
  SchemaChecker(zero_default, violations).Check(type, value);
}

}  // namespace longhaul
