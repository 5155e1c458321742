#include "common/graph/graph_manifest.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/escaped_text.h"
#include "common/base/status_hint.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/io/sha256.h"
#include "nlohmann/json.hpp"

namespace longhaul {
namespace {

using ManifestJson = nlohmann::ordered_json;

constexpr char kGraphFormat[] = "longhaul-graph";
constexpr int64_t kGraphVersion = 1;
constexpr int64_t kEdgesMax = int64_t{1} << 48;
constexpr int64_t kNameBytesMax = 4096;

struct CountField {
  const char* name;
  int64_t GraphManifest::*member;
  int64_t max;
  // Earlier versions did not write it: 0.
  bool optional = false;
};
constexpr CountField kCountFields[] = {
    {"nodes", &GraphManifest::nodes, kGraphNodesMax},
    {"edges", &GraphManifest::edges, kEdgesMax},
    {"columns", &GraphManifest::columns, kGraphColumnsMax},
    {"classes", &GraphManifest::classes, kGraphClassesMax},
    {"pairs_read", &GraphManifest::pairs_read, kEdgesMax},
    {"merged_duplicates", &GraphManifest::merged_duplicates, kEdgesMax},
    {"dropped_loops", &GraphManifest::dropped_loops, kEdgesMax},
    {"nodes_without_in_edges", &GraphManifest::nodes_without_in_edges, kGraphNodesMax},
    {"labelled", &GraphManifest::labelled, kGraphNodesMax},
    {"train", &GraphManifest::train, kGraphNodesMax},
    {"valid", &GraphManifest::valid, kGraphNodesMax},
    {"test", &GraphManifest::test, kGraphNodesMax},
    {"train_pairs", &GraphManifest::train_pairs, kEdgesMax, true},
    {"valid_pairs", &GraphManifest::valid_pairs, kEdgesMax, true},
    {"test_pairs", &GraphManifest::test_pairs, kEdgesMax, true},
    {"held_out_edges", &GraphManifest::held_out_edges, kEdgesMax, true}};

const char* NameOfIds(GraphIds ids) {
  return ids == GraphIds::kNone ? "none" : ids == GraphIds::kNumbers ? "numbers" : "texts";
}

class ManifestReader {
 public:
  explicit ManifestReader(absl::string_view path) : path_(path) {}

  absl::StatusOr<GraphManifest> Read(absl::string_view text) {
    const ManifestJson json = ManifestJson::parse(text.begin(), text.end(), nullptr, false);
    if (!json.is_object() || Text(json, "format") != kGraphFormat)
      return Error("not the manifest of a graph's folder");
    LH_RETURN_IF_ERROR(Count(json, "version", std::numeric_limits<int64_t>::max(), version_));
    if (version_ != kGraphVersion) {
      return WithHint(
          absl::InvalidArgumentError(absl::StrCat(path_, ": version ", version_,
                                                  " of the format is unknown to this program")),
          "use the version of longhaul that imported the graph, or import it again");
    }
    GraphManifest result;
    for (const CountField& field : kCountFields) {
      if (field.optional && !json.contains(field.name)) continue;
      LH_RETURN_IF_ERROR(Count(json, field.name, field.max, result.*field.member));
    }
    if (result.nodes == 0 || result.columns == 0) return Error("nodes and columns must be above 0");
    const std::string direction = Text(json, "direction");
    if (direction != "directed" && direction != "reverse-edges")
      return Error("direction is neither \"directed\" nor \"reverse-edges\"");
    result.reverse_edges = direction == "reverse-edges";
    if (!json.contains("duplicates_kept") || !json["duplicates_kept"].is_boolean())
      return Error("duplicates_kept is neither true nor false");
    result.duplicates_kept = json["duplicates_kept"].get<bool>();
    LH_RETURN_IF_ERROR(Names(json, "class_names", result.classes, result.class_names));
    LH_RETURN_IF_ERROR(Names(json, "feature_names", result.columns, result.feature_names));
    LH_RETURN_IF_ERROR(Ids(json, result.ids));
    LH_RETURN_IF_ERROR(Arrays(json, result));
    if (Text(json, "schema_digest") != result.SchemaDigest())
      return Error("schema_digest does not match the columns and classes");
    if (Text(json, "content_digest") != result.ContentDigest().Hex())
      return Error("content_digest does not match the arrays");
    return result;
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return WithHint(absl::InvalidArgumentError(absl::StrCat(path_, ": ", what)),
                    "import the graph again with `longhaul graph import`");
  }

  // Empty: there is no text of that name.
  static std::string Text(const ManifestJson& json, const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  }

  absl::Status Count(const ManifestJson& json, const char* name, int64_t max,
                     int64_t& value) const {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_unsigned() ||
        found->get<uint64_t>() > static_cast<uint64_t>(max))
      return Error(absl::StrCat(name, " is not a whole number from 0 to ", max));
    value = found->get<int64_t>();
    return absl::OkStatus();
  }

  absl::Status Names(const ManifestJson& json, const char* name, int64_t count,
                     std::vector<std::string>& names) const {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_array() ||
        (!found->empty() && found->size() != static_cast<size_t>(count)))
      return Error(absl::StrCat(name, " is not a list of 0 or ", count, " names"));
    for (const ManifestJson& element : *found) {
      if (!element.is_string()) return Error(absl::StrCat(name, " has an element without a name"));
      names.push_back(element.get<std::string>());
      if (names.back().size() > kNameBytesMax)
        return Error(absl::StrCat(name, " has a name of more than ", kNameBytesMax, " bytes"));
    }
    return absl::OkStatus();
  }

  absl::Status Ids(const ManifestJson& json, GraphIds& ids) const {
    for (const GraphIds kind : {GraphIds::kNone, GraphIds::kNumbers, GraphIds::kTexts}) {
      if (Text(json, "ids") != NameOfIds(kind)) continue;
      ids = kind;
      return absl::OkStatus();
    }
    return Error("ids is none of \"none\", \"numbers\" and \"texts\"");
  }

  absl::Status Arrays(const ManifestJson& json, GraphManifest& result) const {
    const auto found = json.find("arrays");
    if (found == json.end() || !found->is_object()) return Error("arrays is missing");
    for (const auto& [name, value] : found->items()) {
      LH_RETURN_IF_ERROR(Array(name, value, result.arrays[name]));
    }
    const auto expect = [&](const char* name, bool present, std::vector<NpyType> types,
                            std::vector<int64_t> shape) -> absl::Status {
      const auto array = result.arrays.find(name);
      if (!present) {
        if (array == result.arrays.end()) return absl::OkStatus();
        return Error(absl::StrCat("the array ", name, " does not belong to the sizes"));
      }
      if (array == result.arrays.end())
        return Error(absl::StrCat("the array ", name, " is missing"));
      // -1: any.
      if (shape[0] < 0 && !array->second.shape.empty()) shape[0] = array->second.shape[0];
      if (array->second.shape != shape) {
        return Error(absl::StrCat("the array ", name, " has the shape ",
                                  ShapeText(array->second.shape), ", not ", ShapeText(shape)));
      }
      if (std::count(types.begin(), types.end(), array->second.type) == 0)
        return Error(absl::StrCat("the array ", name, " is of ", NameOf(array->second.type)));
      return absl::OkStatus();
    };
    const int64_t n = result.nodes;
    const std::vector<NpyType> longs = {NpyType::kInt64};
    LH_RETURN_IF_ERROR(expect("indptr", true, longs, {n + 1}));
    LH_RETURN_IF_ERROR(expect("indices", true, {NpyType::kInt32, NpyType::kInt64}, {result.edges}));
    LH_RETURN_IF_ERROR(expect("features", true, {NpyType::kFloat32}, {n, result.columns}));
    LH_RETURN_IF_ERROR(expect("labels", result.classes > 0, {NpyType::kInt32}, {n}));
    LH_RETURN_IF_ERROR(expect("train", result.train > 0, longs, {result.train}));
    LH_RETURN_IF_ERROR(expect("valid", result.valid > 0, longs, {result.valid}));
    LH_RETURN_IF_ERROR(expect("test", result.test > 0, longs, {result.test}));
    LH_RETURN_IF_ERROR(
        expect("train_pairs", result.train_pairs > 0, longs, {result.train_pairs, 2}));
    LH_RETURN_IF_ERROR(
        expect("valid_pairs", result.valid_pairs > 0, longs, {result.valid_pairs, 2}));
    LH_RETURN_IF_ERROR(expect("test_pairs", result.test_pairs > 0, longs, {result.test_pairs, 2}));
    const bool texts = result.ids == GraphIds::kTexts;
    LH_RETURN_IF_ERROR(expect("ids", result.ids == GraphIds::kNumbers, longs, {n}));
    LH_RETURN_IF_ERROR(expect("id_ends", texts, longs, {n}));
    LH_RETURN_IF_ERROR(expect("id_bytes", texts, {NpyType::kUint8}, {-1}));
    constexpr const char* kKnown[] = {
        "indptr", "indices",  "features", "labels",      "train",       "valid",     "test",
        "ids",    "id_bytes", "id_ends",  "train_pairs", "valid_pairs", "test_pairs"};
    for (const auto& [name, array] : result.arrays) {
      if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown))
        return Error(absl::StrCat("the array ", Escaped(name.substr(0, 64)), " is unknown"));
    }
    return absl::OkStatus();
  }

  static std::string Escaped(absl::string_view text) { return EscapedLine(text); }

  absl::Status Array(const std::string& name, const ManifestJson& json, GraphArray& array) const {
    const std::string what = absl::StrCat("the array ", Escaped(name.substr(0, 64)));
    if (!json.is_object()) return Error(absl::StrCat(what, " is not an object"));
    const std::optional<NpyType> type = NpyTypeOf(Text(json, "type"));
    if (!type.has_value()) return Error(absl::StrCat(what, " has no known type"));
    array.type = *type;
    const auto shape = json.find("shape");
    if (shape == json.end() || !shape->is_array() || shape->empty() || shape->size() > 2)
      return Error(absl::StrCat(what, " has no shape of one or two sizes"));
    for (const ManifestJson& size : *shape) {
      if (!size.is_number_unsigned() || size.get<uint64_t>() > kEdgesMax)
        return Error(absl::StrCat(what, " has a size out of range"));
      array.shape.push_back(size.get<int64_t>());
    }
    const std::string digest = Text(json, "digest");
    if (digest.size() != 32 || !absl::SimpleHexAtoi(digest.substr(0, 16), &array.digest.high) ||
        !absl::SimpleHexAtoi(digest.substr(16), &array.digest.low) || array.digest.Hex() != digest)
      return Error(absl::StrCat(what, " has no digest"));
    return absl::OkStatus();
  }

  const absl::string_view path_;
  int64_t version_ = 0;
};

}  // namespace

std::string GraphManifest::SchemaDigest() const {
  Sha256 sha;
  // Names may hold any bytes, so each has its length before it.
  const auto add = [&sha](const std::vector<std::string>& names) {
    sha.Update(absl::StrCat(names.size(), "\n"));
    for (const std::string& name : names) sha.Update(absl::StrCat(name.size(), "\n", name));
  };
  sha.Update(absl::StrCat("columns ", columns, "\nclasses ", classes, "\n"));
  add(feature_names);
  add(class_names);
  return sha.Hex();
}

GraphManifest GraphManifest::WithoutClasses() const {
  GraphManifest result = *this;
  result.classes = 0;
  result.class_names.clear();
  return result;
}

Digest128 GraphManifest::ContentDigest() const {
  std::string text;
  for (const auto& [name, array] : arrays) {
    absl::StrAppend(&text, name, " ", NameOf(array.type), " ", ShapeText(array.shape), " ",
                    array.digest.Hex(), "\n");
  }
  return DigestOf(text);
}

std::string WriteGraphManifest(const GraphManifest& manifest) {
  ManifestJson json = {{"format", kGraphFormat}, {"version", kGraphVersion}};
  for (const CountField& field : kCountFields) json[field.name] = manifest.*field.member;
  json["direction"] = manifest.reverse_edges ? "reverse-edges" : "directed";
  json["duplicates_kept"] = manifest.duplicates_kept;
  json["class_names"] = manifest.class_names;
  json["feature_names"] = manifest.feature_names;
  json["ids"] = NameOfIds(manifest.ids);
  ManifestJson arrays = ManifestJson::object();
  for (const auto& [name, array] : manifest.arrays) {
    arrays[name] = {{"type", std::string(NameOf(array.type))},
                    {"shape", array.shape},
                    {"digest", array.digest.Hex()}};
  }
  json["arrays"] = std::move(arrays);
  json["schema_digest"] = manifest.SchemaDigest();
  json["content_digest"] = manifest.ContentDigest().Hex();
  return json.dump(1, ' ', false, ManifestJson::error_handler_t::replace) + "\n";
}

absl::StatusOr<GraphManifest> ParseGraphManifest(absl::string_view path, absl::string_view text) {
  return ManifestReader(path).Read(text);
}

std::string SchemaDifference(absl::string_view name_a, const GraphManifest& a,
                             absl::string_view name_b, const GraphManifest& b) {
  const auto sizes = [&](int64_t of_a, int64_t of_b, absl::string_view what) {
    return absl::StrCat(of_a, " ", what, " at ", name_a, ", ", of_b, " at ", name_b);
  };
  if (a.columns != b.columns) return sizes(a.columns, b.columns, "columns");
  if (a.classes != b.classes) return sizes(a.classes, b.classes, "classes");
  const auto names = [&](const std::vector<std::string>& of_a, const std::vector<std::string>& of_b,
                         absl::string_view what) -> std::string {
    if (of_a.size() != of_b.size()) {
      return absl::StrCat("only ", of_a.empty() ? name_b : name_a, " names its ", what,
                          what == "class" ? "es" : "s");
    }
    const size_t i = std::mismatch(of_a.begin(), of_a.end(), of_b.begin()).first - of_a.begin();
    if (i == of_a.size()) return "";
    return absl::StrCat(what, " ", i, " is \"", EscapedLine(of_a[i]), "\" at ", name_a, ", \"",
                        EscapedLine(of_b[i]), "\" at ", name_b);
  };
  const std::string of_classes = names(a.class_names, b.class_names, "class");
  return of_classes.empty() ? names(a.feature_names, b.feature_names, "column") : of_classes;
}

}  // namespace longhaul
