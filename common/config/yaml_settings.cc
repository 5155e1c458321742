#include "common/config/yaml_settings.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/config/yaml_document.h"
#include "yaml-cpp/yaml.h"

namespace longhaul {
namespace {

// What it is in place of a single value. Empty: it is one.
absl::string_view OtherKind(const YAML::Node& value) {
  return value.IsMap()        ? "a mapping"
         : value.IsSequence() ? "a list"
         : value.IsNull()     ? "nothing"
                              : "";
}

void TakeSettings(const YAML::Node& document, std::vector<YamlSetting>& settings,
                  ViolationList& violations) {
  if (document.IsNull()) return;
  if (!document.IsMap()) {
    violations.Invalid(
        "", absl::StrFormat("line %d: expected lines of NAME: VALUE", document.Mark().line + 1));
    return;
  }
  for (const auto& entry : document) {
    const int line = entry.first.Mark().line + 1;
    if (!entry.first.IsScalar()) {
      violations.Invalid("", absl::StrFormat("line %d: found a key that is not a name", line));
      continue;
    }
    const std::string& name = entry.first.Scalar();
    const auto same = std::find_if(settings.begin(), settings.end(),
                                   [&](const YamlSetting& s) { return s.name == name; });
    if (same != settings.end()) {
      violations.Invalid("", absl::StrFormat("line %d: %s is given twice, first in line %d", line,
                                             name, same->line));
    } else if (const absl::string_view found = OtherKind(entry.second); !found.empty()) {
      violations.Invalid(
          "", absl::StrFormat("line %d: %s: found %s, expected one value", line, name, found),
          entry.second.IsNull() ? "\"\" is an empty text" : "");
    } else {
      settings.push_back({name, entry.second.Scalar(), line});
    }
  }
}

}  // namespace

std::vector<YamlSetting> ParseYamlSettings(absl::string_view text, ViolationList& violations) {
  std::vector<YamlSetting> settings;
  const bool read = ReadYaml(
      text,
      [&](const YAML::Node& document, ViolationList& found) {
        TakeSettings(document, settings, found);
      },
      violations);
  return read ? settings : std::vector<YamlSetting>();
}

}  // namespace longhaul
