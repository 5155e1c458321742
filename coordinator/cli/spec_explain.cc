#include "coordinator/cli/spec_explain.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/config/schema_check.h"
#include "coordinator/cli/text.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"

namespace longhaul {
extern const unsigned char kFile_job_spec_desc[];
extern const unsigned long kFileSize_job_spec_desc;  // NOLINT: as the embedding writes it.
}  // namespace longhaul

namespace longhaul::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// The types of job.proto with their comments, which those of the generated code do not have.
class SpecTypes {
 public:
  SpecTypes() {
    google::protobuf::FileDescriptorSet files;
    files.ParseFromArray(kFile_job_spec_desc, static_cast<int>(kFileSize_job_spec_desc));
    for (const auto& file : files.file()) pool_.BuildFile(file);
  }
  const Descriptor* spec() const { return pool_.FindMessageTypeByName("longhaul.v1.JobSpec"); }

 private:
  google::protobuf::DescriptorPool pool_;
};

// A paragraph: the lines of a comment are joined.
template <typename Commented>
std::string CommentOf(const Commented* what) {
  google::protobuf::SourceLocation location;
  if (!what->GetSourceLocation(&location)) return "";
  std::vector<std::string> parts;
  for (const std::string* comment : {&location.leading_comments, &location.trailing_comments}) {
    std::string text;
    for (const absl::string_view line : absl::StrSplit(*comment, '\n'))
      absl::StrAppend(&text, text.empty() ? "" : " ", absl::StripAsciiWhitespace(line));
    if (!absl::StripAsciiWhitespace(text).empty())
      parts.emplace_back(absl::StripAsciiWhitespace(text));
  }
  return absl::StrJoin(parts, " ");
}

std::string TypeName(const FieldDescriptor* field) {
  std::string name;
  switch (field->type()) {
    case FieldDescriptor::TYPE_MESSAGE:
      name =
          field->message_type()->full_name() == "google.protobuf.Duration" ? "duration" : "group";
      break;
    case FieldDescriptor::TYPE_ENUM:
      name = "choice";
      break;
    case FieldDescriptor::TYPE_STRING:
      name = "text";
      break;
    case FieldDescriptor::TYPE_BOOL:
      name = "true or false";
      break;
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FLOAT:
      name = "number";
      break;
    default:
      name = "integer";
  }
  return field->is_repeated() ? absl::StrCat("list of ", name) : name;
}

bool IsGroup(const FieldDescriptor* field) {
  return field->message_type() != nullptr && TypeName(field) != "duration" &&
         TypeName(field) != "list of duration";
}

// Of the field, and of the type that it is of, which says what the group is for.
std::string Description(const FieldDescriptor* field) {
  std::string text = CommentOf(field);
  const std::string of_type = IsGroup(field)                  ? CommentOf(field->message_type())
                              : field->enum_type() != nullptr ? CommentOf(field->enum_type())
                                                              : "";
  absl::StrAppend(&text, text.empty() || of_type.empty() ? "" : " ", of_type);
  return text;
}

Json FieldsJson(const Descriptor* type) {
  Json fields = Json::array();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const auto* choice = field->real_containing_oneof();
    fields.push_back({{"name", field->name()},
                      {"type", TypeName(field)},
                      {"repeated", field->is_repeated()},
                      {"one_of", choice == nullptr ? Json(nullptr) : Json(choice->name())},
                      {"description", Description(field)}});
  }
  return fields;
}

Json ValuesJson(const EnumDescriptor* type) {
  Json values = Json::array();
  for (int i = 0; i < type->value_count(); ++i) {
    if (type->value(i)->number() == 0) continue;  // *_UNSPECIFIED: left out.
    values.push_back({{"name", absl::AsciiStrToLower(type->value(i)->name())},
                      {"description", CommentOf(type->value(i))}});
  }
  return values;
}

std::string ExplanationText(const Json& json, int columns) {
  const std::string path = json["path"].get<std::string>();
  std::string text =
      absl::StrCat(path.empty() ? "A job spec" : path, ": ", json["type"].get<std::string>(), "\n");
  if (const std::string description = json["description"]; !description.empty())
    absl::StrAppend(&text, WrapText(description, columns, "  "));
  const auto rows = [&](const char* title, const Json& items, bool typed) {
    if (items.empty()) return;
    absl::StrAppend(&text, "\n", title, "\n");
    for (const Json& item : items) {
      absl::StrAppend(&text, "  ", item["name"].get<std::string>());
      if (typed) absl::StrAppend(&text, ": ", item["type"].get<std::string>());
      if (typed && !item["one_of"].is_null()) absl::StrAppend(&text, ", one of these at most");
      absl::StrAppend(&text, "\n");
      if (const std::string about = item["description"]; !about.empty())
        absl::StrAppend(&text, WrapText(about, columns, "      "));
    }
  };
  rows("Fields", json["fields"], /*typed=*/true);
  rows("Values", json["values"], /*typed=*/false);
  return text;
}

}  // namespace

Outcome SpecExplain(const std::string& path, int columns) {
  const SpecTypes types;
  const Descriptor* group = types.spec();
  if (group == nullptr) return CliError{.code = "INTERNAL", .message = "no types of the spec"};
  const FieldDescriptor* field = nullptr;
  std::string walked;
  for (const absl::string_view name : absl::StrSplit(path, '.', absl::SkipEmpty())) {
    if (group == nullptr)
      return UsageError(absl::StrCat(walked, " has no fields; it is ", TypeName(field)));
    field = group->FindFieldByName(std::string(name));
    if (field == nullptr) {
      return UsageError(
          absl::StrCat(walked.empty() ? "a job spec" : walked, " has no field ", name),
          UnknownFieldHint(*types.spec(), *group, walked, name));
    }
    absl::StrAppend(&walked, walked.empty() ? "" : ".", name);
    group = IsGroup(field) ? field->message_type() : nullptr;
  }
  Json json = {
      {"path", walked},
      {"type", field == nullptr ? "group" : TypeName(field)},
      {"description", field == nullptr ? CommentOf(group) : Description(field)},
      {"fields", group == nullptr ? Json::array() : FieldsJson(group)},
      {"values", field != nullptr && field->enum_type() != nullptr ? ValuesJson(field->enum_type())
                                                                   : Json::array()}};
  std::string text = ExplanationText(json, std::clamp(columns, 40, 100));
  return {std::move(json), std::move(text)};
}

}  // namespace longhaul::cli
