// What is written as YAML reads as the same values: the CLI's output is the CLI's input.
//   input: a YAML document
#include "coordinator/cli/yaml_writer.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_target.h"

namespace longhaul::fuzz {

std::vector<Seed> Seeds() {
  return {
      {"values", "a: 1\nb: [true, null, 'true', 1e3, -0.5, ~, '~']\nc: {d: '', e: [], f: {}}\n"},
      {"text", "a: 'x: y'\nb: \"line\\nline\\ttab\\x07\"\nc: '- d'\n'? e': '#f'\n'': '12'\n"}};
}

}  // namespace longhaul::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;  // NOLINT: a file of one function
  ViolationList violations;
  const Json value = ParseYaml({reinterpret_cast<const char*>(data), size}, violations);
  if (!violations.empty()) return 0;
  const std::string text = cli::WriteYaml(value);
  LH_CHECK(ParseYaml(text, violations) == value && violations.empty(), "the same values");
  return 0;
}
