#include "common/config/yaml_json.h"

#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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
      return Stop(path, NestedTooDeep());
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

}  // namespace

Json ParseYaml(absl::string_view text, ViolationList& violations) {
  Json result;
  const bool read = ReadYaml(
      text,
      [&](const YAML::Node& document, ViolationList& found) {
        result = Converter(found).Convert(document, "", 0);
      },
      violations);
  if (!read) return nullptr;
  return result.is_null() ? Json::object() : result;
}

}  // namespace longhaul
