#include "common/config/yaml_json.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/utf8.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/yaml.h"

namespace longhaul {
namespace {

bool LooksLikeNumber(absl::string_view text) {
  const bool has_digit = text.find_first_of("0123456789") != absl::string_view::npos;
  return has_digit && text.find_first_not_of("0123456789+-.eE") == absl::string_view::npos;
}

Json PlainScalar(const std::string& text) {
  if (text.empty() || text == "~" || absl::EqualsIgnoreCase(text, "null")) return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (!LooksLikeNumber(text)) return text;
  int64_t integer;
  if (absl::SimpleAtoi(text, &integer)) return integer;
  uint64_t large;
  if (absl::SimpleAtoi(text, &large)) return large;
  double number;
  if (absl::SimpleAtod(text, &number) && std::isfinite(number)) return number;
  return text;
}

// One conversion. It counts values and knows its current path.
class Converter {
 public:
  explicit Converter(ViolationList& violations) : violations_(violations) {}

  // After a bound is exceeded it returns null and adds a violation. The caller then discards the
  // result.
  Json Convert(const YAML::Node& node, const std::string& path, int depth) {
    if (stopped_) return nullptr;
    if (++values_ > kYamlValuesMax) {
      return Stop(path, absl::StrFormat("the document has more than %d values", kYamlValuesMax));
    }
    if (depth > kYamlDepthMax) {
      return Stop(path, absl::StrFormat("values are nested more than %d deep", kYamlDepthMax));
    }
    if (node.IsScalar())
      return node.Tag() == "!" ? Json(node.Scalar()) : PlainScalar(node.Scalar());
    if (node.IsSequence()) return ConvertSequence(node, path, depth);
    if (node.IsMap()) return ConvertMap(node, path, depth);
    return nullptr;
  }

 private:
  Json ConvertSequence(const YAML::Node& node, const std::string& path, int depth) {
    Json array = Json::array();
    for (size_t i = 0; i < node.size() && !stopped_; ++i) {
      array.push_back(Convert(node[i], absl::StrCat(path, "[", i, "]"), depth + 1));
    }
    return array;
  }

  Json ConvertMap(const YAML::Node& node, const std::string& path, int depth) {
    Json object = Json::object();
    for (const auto& entry : node) {
      if (stopped_) break;
      if (!entry.first.IsScalar()) {
        violations_.Invalid(path, "found a key that is not a name", "expected name: value");
        continue;
      }
      const std::string& key = entry.first.Scalar();
      const std::string child = path.empty() ? key : absl::StrCat(path, ".", key);
      if (object.contains(key)) {
        violations_.Invalid(
            child, absl::StrFormat("is given twice (line %d)", entry.first.Mark().line + 1));
        continue;
      }
      object[key] = Convert(entry.second, child, depth + 1);
    }
    return object;
  }

  Json Stop(const std::string& path, std::string description) {
    stopped_ = true;
    violations_.Invalid(path, std::move(description));
    return nullptr;
  }

  ViolationList& violations_;
  int values_ = 0;
  bool stopped_ = false;
};

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

Json ParseYaml(absl::string_view text, ViolationList& violations) {
  if (text.size() > kYamlBytesMax) {
    violations.Invalid("", absl::StrFormat("the document has %d bytes, expected at most %d",
                                           text.size(), kYamlBytesMax));
    return nullptr;
  }
  ViolationList found;
  if (const int line = LineThatIsNotUtf8(text); line != 0) {
    violations.Invalid("", absl::StrFormat("line %d: found text that is not UTF-8", line));
    return nullptr;
  }
  Json result;
  // yaml-cpp reports by exceptions. This is the only place where it is called.
  try {
    const std::string owned(text);
    if (HasMoreThanOneDocument(owned)) found.Invalid("", "found several documents, expected one");
    result = Converter(found).Convert(YAML::Load(owned), "", 0);
  } catch (const YAML::Exception& e) {
    found.Invalid(
        "",
        absl::StrFormat("line %d, column %d: not YAML: %s", e.mark.line + 1, e.mark.column + 1,
                        e.msg),
        LineBeginsWithTab(text, e.mark.line) ? "YAML is indented by spaces, not by tabs" : "");
  }
  if (found.empty()) return result.is_null() ? Json::object() : result;
  for (const SpecViolation& v : found.all()) violations.Invalid(v.field, v.description, v.hint);
  return nullptr;
}

}  // namespace longhaul
