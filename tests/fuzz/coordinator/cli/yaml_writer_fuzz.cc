// What is written as YAML reads as the same values: the CLI's output is the CLI's input.
//   input: a YAML document
#include "absl/strings/match.h"
#include "coordinator/cli/yaml_writer.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_target.h"

namespace longhaul::fuzz::yaml_writer_fuzz {
namespace {

// Not so: text that is not UTF-8, and noncharacters of Unicode, which are written with
// replacements; names that take more than 1024 bytes with their escapes, which yaml-cpp does not
// read.
bool IsWritable(const Json& value) {
  const auto written = [&](Json::error_handler_t handler) {
    return value.dump(-1, ' ', false, handler);
  };
  if (written(Json::error_handler_t::ignore) != written(Json::error_handler_t::replace)) {
    return false;
  }
  const std::string ascii = value.dump(-1, ' ', true);
  for (const char* noncharacter : {"ufdd", "ufde", "ufffe", "uffff", "udffe", "udfff"}) {
    if (absl::StrContains(ascii, noncharacter)) return false;
  }
  bool short_names = true;
  const Json flat = value.flatten();
  for (const auto& [name, child] : flat.items()) short_names &= name.size() < 160;
  return short_names;
}

}  // namespace

std::vector<Seed> Seeds() {
  return {
      {"values", "a: 1\nb: [true, null, 'true', 1e3, -0.5, ~, '~']\nc: {d: '', e: [], f: {}}\n"},
      {"text", "a: 'x: y'\nb: \"line\\nline\\ttab\\x07\"\nc: '- d'\n'? e': '#f'\n'': '12'\n"}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  ViolationList violations;
  const Json value = ParseYaml({reinterpret_cast<const char*>(data), size}, violations);
  if (!violations.empty() || !IsWritable(value)) return 0;
  const std::string text = cli::WriteYaml(value);
  LH_CHECK(ParseYaml(text, violations) == value && violations.empty(), "the same values");
  return 0;
}

}  // namespace longhaul::fuzz::yaml_writer_fuzz
