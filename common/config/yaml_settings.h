// Reads YAML that is a list of settings, as a program's configuration file.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/config/violation_list.h"

namespace longhaul {

struct YamlSetting {
  std::string name;
  // As it is written, without quotes: 2 and "2" are the same.
  std::string value;
  // From 1.
  int line;
};

// The settings of a mapping from names to single values, in its order. An empty document has none.
// Violations, with an empty list as result: those of ReadYaml; and, with their line, another
// document, a name that is given twice, a list, mapping or nothing as a value.
std::vector<YamlSetting> ParseYamlSettings(absl::string_view text, ViolationList& violations);

}  // namespace longhaul
