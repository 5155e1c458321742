#include "coordinator/cli/yaml_writer.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "yaml-cpp/emitter.h"

namespace longhaul::cli {
namespace {

// Words that need no quotes in any YAML: letters, digits and a few marks, beginning with a letter.
// yaml-cpp itself would leave "true" and "12" bare.
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

void WriteText(const std::string& text, YAML::Emitter& out) {
  if (!IsPlainWord(text)) out << YAML::DoubleQuoted;
  out << text;
}

void Write(const Json& value, YAML::Emitter& out) {
  if (value.is_structured() && value.empty()) out << YAML::Flow;  // In block style it has no form.
  if (value.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, child] : value.items()) {
      out << YAML::Key;
      WriteText(key, out);
      out << YAML::Value;
      Write(child, out);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    out << YAML::BeginSeq;
    for (const Json& child : value) Write(child, out);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    WriteText(value.get_ref<const std::string&>(), out);
  } else if (value.is_null()) {
    out << YAML::LowerNull << YAML::Null;
  } else {
    out << value.dump();  // Numbers, true and false are written alike in both.
  }
}

}  // namespace

std::string WriteYaml(const Json& value) {
  YAML::Emitter out;
  Write(value, out);
  return std::string(out.c_str(), out.size()) + "\n";
}

}  // namespace longhaul::cli
