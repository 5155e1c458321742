// JSON values as YAML in block style.
#pragma once

#include <string>

#include "common/config/yaml_json.h"

namespace longhaul::cli {

// Ends with a newline. Text that YAML would read as something else (true, 12, "a: b") is quoted, so
// ParseYaml of the result gives `value` again, except that yaml-cpp replaces
// noncharacters of Unicode.
std::string WriteYaml(const Json& value);

}  // namespace longhaul::cli
