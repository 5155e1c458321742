#include "common/config/yaml_document.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/utf8.h"
#include "yaml-cpp/depthguard.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/yaml.h"

namespace longhaul {
namespace {

// Skips a document.
class IgnoreEvents : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// YAML::LoadAll is not used: before a character that begins no value, such as a comma, yaml-cpp
// finds empty documents without end.
bool HasMoreThanOneDocument(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  IgnoreEvents events;
  return parser.HandleNextDocument(events) && parser;
}

// 0: none. UTF-16 and UTF-32, which yaml-cpp reads, begin with their mark.
int LineThatIsNotUtf8(absl::string_view text) {
  if (absl::StartsWith(text, "\xFF\xFE") || absl::StartsWith(text, "\xFE\xFF") ||
      absl::StartsWith(text, absl::string_view("\0\0\xFE\xFF", 4))) {
    return 0;
  }
  int line = 1;
  for (size_t at = 0, size; at < text.size(); at += size) {
    size = Utf8Size(text.substr(at));
    if (size == 0) return line;
    if (text[at] == '\n') ++line;
  }
  return 0;
}

// `line` is counted from 0. The parser may notice a tab one line later.
bool LineBeginsWithTab(absl::string_view text, int line) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  for (int i = std::max(0, line - 1); i <= line && i < static_cast<int>(lines.size()); ++i) {
    const absl::string_view indent = lines[i].substr(0, lines[i].find_first_not_of(" \t"));
    if (absl::StrContains(indent, '\t')) return true;
  }
  return false;
}

}  // namespace

std::string NestedTooDeep() {
  return absl::StrFormat("values are nested more than %d deep", kYamlDepthMax);
}

bool ReadYaml(absl::string_view text,
              absl::FunctionRef<void(const YAML::Node&, ViolationList&)> use,
              ViolationList& violations) {
  if (text.size() > kYamlBytesMax) {
    violations.Invalid("", absl::StrFormat("the document has %d bytes, expected at most %d",
                                           text.size(), kYamlBytesMax));
    return false;
  }
  if (const int line = LineThatIsNotUtf8(text); line != 0) {
    violations.Invalid("", absl::StrFormat("line %d: found text that is not UTF-8", line));
    return false;
  }
  ViolationList found;
  try {
    const std::string owned(text);
    if (HasMoreThanOneDocument(owned)) found.Invalid("", "found several documents, expected one");
    use(YAML::Load(owned), found);
  } catch (const YAML::DeepRecursion&) {
    // Its own words are "bad file".
    found.Invalid("", NestedTooDeep());
  } catch (const YAML::Exception& e) {
    found.Invalid(
        "",
        absl::StrFormat("line %d, column %d: not YAML: %s", e.mark.line + 1, e.mark.column + 1,
                        e.msg),
        LineBeginsWithTab(text, e.mark.line) ? "YAML is indented by spaces, not by tabs" : "");
  }
  for (const SpecViolation& v : found.all()) violations.Invalid(v.field, v.description, v.hint);
  return found.empty();
}

}  // namespace longhaul
