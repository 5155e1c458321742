#include "coordinator/cli/yaml_writer.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace longhaul::cli {
namespace {

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Words that need no quotes in any YAML: letters, digits and a few marks, beginning with a letter.
bool IsPlainWord(const std::string& text) {
  static constexpr const char* kOther[] = {"null", "true", "false", "yes", "no",
                                           "on",   "off",  "y",     "n"};
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/';
  };
  return !text.empty() && (absl::ascii_isalpha(text[0]) || text[0] == '/') &&
         std::all_of(text.begin(), text.end(), allowed) &&
         std::none_of(std::begin(kOther), std::end(kOther),
                      [&](const char* word) { return absl::EqualsIgnoreCase(text, word); });
}

std::string Scalar(const Json& value) {
  if (value.is_string() && IsPlainWord(value.get_ref<const std::string&>())) {
    return value.get<std::string>();
  }
  return Dump(value);  // A JSON scalar, and an empty list or object, is YAML too.
}

void Write(const Json& value, int indent, std::string& out) {
  const std::string margin(indent, ' ');
  const auto write_child = [&](const Json& child, int child_indent) {
    if (child.is_structured() && !child.empty()) {
      out += "\n";
      Write(child, child_indent, out);
    } else {
      absl::StrAppend(&out, " ", Scalar(child), "\n");
    }
  };
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, child] : value.items()) {
      absl::StrAppend(&out, margin, Scalar(Json(key)), ":");
      write_child(child, indent + 2);
    }
  } else if (value.is_array() && !value.empty()) {
    for (const Json& child : value) {
      absl::StrAppend(&out, margin, "-");
      write_child(child, indent + 2);
    }
  } else {
    absl::StrAppend(&out, margin, Scalar(value), "\n");
  }
}

}  // namespace

std::string WriteYaml(const Json& value) {
  std::string out;
  Write(value, 0, out);
  return out;
}

}  // namespace longhaul::cli
