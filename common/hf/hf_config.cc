#include "common/hf/hf_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/hf/bounded_json.h"
#include "common/io/file_content.h"
#include "common/io/read_only_file.h"

namespace longhaul {
namespace {

using Json = nlohmann::json;

constexpr char kSeparateDocuments[] = "longhaul_separate_documents";
constexpr char kLlama[] = "LlamaForCausalLM", kQwen3[] = "Qwen3ForCausalLM";

// Reads the fields of an object with the types that they should have. Collects all mistakes.
class Fields {
 public:
  Fields(const Json& json, std::vector<std::string>& wrong) : json_(json), wrong_(wrong) {}

  bool Has(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }
  int64_t Integer(const char* name, std::optional<int64_t> absent = std::nullopt) const {
    if (Missing(name, absent.has_value())) return absent.value_or(0);
    const Json& value = json_[name];
    if (value.is_number_integer() && value >= 0 && value <= std::numeric_limits<int32_t>::max())
      return value.get<int64_t>();
    return Wrong(name, "a number from 0 to 2^31 - 1"), 0;
  }
  double Number(const char* name, std::optional<double> absent = std::nullopt) const {
    if (Missing(name, absent.has_value())) return absent.value_or(0);
    if (json_[name].is_number()) return json_[name].get<double>();
    return Wrong(name, "a number"), 0;
  }
  bool Flag(const char* name, bool absent) const {
    if (!Has(name)) return absent;
    if (json_[name].is_boolean()) return json_[name].get<bool>();
    return Wrong(name, "true or false"), absent;
  }
  std::string Text(const char* name, const char* absent) const {
    if (!Has(name)) return absent;
    if (json_[name].is_string()) return json_[name].get<std::string>();
    return Wrong(name, "text"), absent;
  }
  // Token ids: null, a number or a list of numbers.
  std::string Tokens(const char* name) const {
    if (!Has(name)) return "null";
    const Json& value = json_[name];
    const bool list = value.is_array() && value.size() <= 1024 &&
                      std::all_of(value.begin(), value.end(),
                                  [](const Json& id) { return id.is_number_integer(); });
    if (list || value.is_number_integer()) return value.dump();
    return Wrong(name, "token ids"), "null";
  }
  const Json& of(const char* name) const { return json_[name]; }

 private:
  bool Missing(const char* name, bool may_be) const {
    if (Has(name)) return false;
    if (!may_be) wrong_.push_back(absl::StrCat(name, ": is missing"));
    return true;
  }
  void Wrong(const char* name, const char* expected) const {
    wrong_.push_back(absl::StrCat(name, ": expected ", expected));
  }

  const Json& json_;
  std::vector<std::string>& wrong_;
};

absl::StatusOr<std::string> ArchitectureOf(const Json& json) {
  std::string name;
  if (json.contains("architectures") && json["architectures"].is_array() &&
      !json["architectures"].empty() && json["architectures"][0].is_string()) {
    name = json["architectures"][0].get<std::string>();
  } else if (json.contains("model_type") && json["model_type"].is_string()) {
    const auto type = json["model_type"].get<std::string>();
    name = type == "llama" ? kLlama : type == "qwen3" ? kQwen3 : type;
  }
  if (name == kLlama || name == kQwen3) return name;
  if (name.empty()) return absl::InvalidArgumentError("architectures: is missing");
  const bool qwen = absl::StartsWithIgnoreCase(name, "qwen3");
  return absl::UnimplementedError(absl::StrCat(
      "architectures: ", name.substr(0, 80), " is not supported; the nearest that is: ",
      qwen ? kQwen3 : kLlama, " (supported: ", kLlama, ", ", kQwen3, ")"));
}

RopeScaling ScalingOf(const Fields& rope, const std::string& type,
                      std::vector<std::string>& lacking) {
  if (type == "linear")
    return {.kind = RopeScaling::Kind::kLinear, .factor = rope.Number("factor")};
  if (type == "llama3") {
    return {.kind = RopeScaling::Kind::kLlama3,
            .factor = rope.Number("factor"),
            .low_freq_factor = rope.Number("low_freq_factor"),
            .high_freq_factor = rope.Number("high_freq_factor"),
            .original_context = rope.Integer("original_max_position_embeddings")};
  }
  if (type != "default") {
    lacking.push_back(absl::StrCat("rope_type: ", type.substr(0, 40),
                                   " is not supported (supported: default, linear, llama3)"));
  }
  return {};
}

// transformers 5 has rope_parameters; transformers 4 has rope_theta and rope_scaling.
void ReadRope(const Json& json, const Fields& top, TransformerShape& shape,
              std::vector<std::string>& wrong, std::vector<std::string>& lacking) {
  const char* const name = top.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  shape.rope_theta = top.Number("rope_theta", 10000);
  if (!top.Has(name)) return;
  if (!json[name].is_object()) {
    wrong.push_back(absl::StrCat(name, ": expected an object"));
    return;
  }
  const Fields rope(json[name], wrong);
  shape.rope_theta = rope.Number("rope_theta", shape.rope_theta);
  if (rope.Number("partial_rotary_factor", 1) != 1)
    lacking.push_back("partial_rotary_factor: only 1 is supported");
  const std::string type =
      rope.Has("rope_type") ? rope.Text("rope_type", "") : rope.Text("type", "default");
  shape.rope_scaling = ScalingOf(rope, type, lacking);
}

void RefuseWhatIsLacking(const Json& json, const Fields& top, std::vector<std::string>& lacking) {
  if (top.Text("hidden_act", "silu") != "silu")
    lacking.push_back("hidden_act: only silu is supported");
  for (const char* flag : {"attention_bias", "mlp_bias", "use_sliding_window"}) {
    if (top.Flag(flag, /*absent=*/false))
      lacking.push_back(absl::StrCat(flag, ": true is not supported"));
  }
  if (top.Number("attention_dropout", 0) != 0)
    lacking.push_back("attention_dropout: only 0 is supported");
  if (top.Number("partial_rotary_factor", 1) != 1)
    lacking.push_back("partial_rotary_factor: only 1 is supported");
  if (top.Has("quantization_config"))
    lacking.push_back("quantization_config: quantized parameters are not supported");
  if (!top.Has("layer_types") || !json["layer_types"].is_array()) return;
  for (const Json& type : json["layer_types"]) {
    if (type != "full_attention") {
      lacking.push_back("layer_types: only full_attention is supported");
      return;
    }
  }
}

TransformerShape ShapeOfFields(const Fields& top, bool qwen3) {
  TransformerShape shape{.layers = top.Integer("num_hidden_layers"),
                         .dim = top.Integer("hidden_size"),
                         .heads = top.Integer("num_attention_heads"),
                         .ff_dim = top.Integer("intermediate_size"),
                         .vocab = top.Integer("vocab_size"),
                         .norm_eps = top.Number("rms_norm_eps", 1e-6),
                         .qk_norm = qwen3,
                         .tie_embeddings = top.Flag("tie_word_embeddings", /*absent=*/false),
                         .positions = top.Integer("max_position_embeddings", qwen3 ? 32768 : 2048)};
  shape.kv_heads = top.Integer("num_key_value_heads", qwen3 ? 32 : shape.heads);
  shape.head_dim = top.Integer("head_dim", qwen3 ? 128 : 0);
  if (shape.head_dim == 0 && shape.heads > 0 && shape.dim % shape.heads == 0)
    shape.head_dim = shape.dim / shape.heads;
  shape.context = std::min(shape.positions, kHfContextDefault);
  return shape;
}

template <typename Value>
void Compare(const char* field, Value wanted, const char* name, Value found,
             std::vector<std::string>& differences) {
  if (wanted == found) return;
  differences.push_back(
      absl::StrCat(field, ": found ", wanted, ", ", name, " in config.json is ", found));
}

std::string ScalingText(const RopeScaling& scaling) {
  switch (scaling.kind) {
    case RopeScaling::Kind::kLinear:
      return absl::StrCat("linear ", scaling.factor);
    case RopeScaling::Kind::kLlama3:
      return absl::StrCat("llama3 ", scaling.factor, ", ", scaling.low_freq_factor, ", ",
                          scaling.high_freq_factor, ", ", scaling.original_context);
    default:
      return "none";
  }
}

}  // namespace

absl::StatusOr<HfConfig> ParseHfConfig(absl::string_view text) {
  LH_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, kHfConfigBytesMax));
  LH_ASSIGN_OR_RETURN(const std::string architecture, ArchitectureOf(json));
  std::vector<std::string> wrong, lacking;
  const Fields top(json, wrong);
  HfConfig config{.shape = ShapeOfFields(top, architecture == kQwen3)};
  ReadRope(json, top, config.shape, wrong, lacking);
  RefuseWhatIsLacking(json, top, lacking);
  config.bos = top.Tokens("bos_token_id");
  config.eos = top.Tokens("eos_token_id");
  config.pad = top.Tokens("pad_token_id");
  config.separate_documents = top.Flag(kSeparateDocuments, /*absent=*/false);
  if (!wrong.empty()) return absl::InvalidArgumentError(absl::StrJoin(wrong, "; "));
  if (!lacking.empty()) return absl::UnimplementedError(absl::StrJoin(lacking, "; "));
  LH_RETURN_IF_ERROR(LayOutTransformer(config.shape).status());
  return config;
}

absl::StatusOr<HfConfig> ReadHfConfig(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/config.json");
  LH_ASSIGN_OR_RETURN(const std::string text, ReadRegularFile(path, kHfConfigBytesMax));
  LH_RETURN_IF_ERROR(CheckPresent(path, text));
  absl::StatusOr<HfConfig> config = ParseHfConfig(text);
  if (!config.ok())
    return absl::Status(config.status().code(),
                        absl::StrCat(path, ": ", config.status().message()));
  return config;
}

absl::StatusOr<std::vector<int64_t>> ParseEndTokens(absl::string_view text) {
  LH_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, kHfConfigBytesMax));
  std::vector<std::string> wrong;
  const Json ids = Json::parse(Fields(json, wrong).Tokens("eos_token_id"));
  if (!wrong.empty()) return absl::InvalidArgumentError(wrong[0]);
  if (ids.is_null()) return std::vector<int64_t>();
  if (ids.is_number()) return std::vector<int64_t>{ids.get<int64_t>()};
  return ids.get<std::vector<int64_t>>();
}

absl::StatusOr<std::vector<int64_t>> ReadEndTokens(const std::string& folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::string path = absl::StrCat(folder, "/", name);
    const absl::StatusOr<std::string> text = ReadRegularFile(path, kHfConfigBytesMax);
    if (absl::IsNotFound(text.status())) continue;
    LH_RETURN_IF_ERROR(text.status());
    absl::StatusOr<std::vector<int64_t>> ends = ParseEndTokens(*text);
    if (!ends.ok())
      return absl::Status(ends.status().code(), absl::StrCat(path, ": ", ends.status().message()));
    if (!ends->empty()) return ends;
  }
  return std::vector<int64_t>();
}

std::vector<std::string> DifferencesFrom(const HfConfig& config, const TransformerShape& wanted) {
  const TransformerShape& found = config.shape;
  std::vector<std::string> differences;
  const auto compare = [&](const char* field, auto wanted_value, const char* name,
                           decltype(wanted_value) found_value) {
    Compare(field, wanted_value, name, found_value, differences);
  };
  compare("layers", wanted.layers, "num_hidden_layers", found.layers);
  compare("dim", wanted.dim, "hidden_size", found.dim);
  compare("heads", wanted.heads, "num_attention_heads", found.heads);
  compare("kv_heads", wanted.kv_heads, "num_key_value_heads", found.kv_heads);
  if (wanted.heads > 0) compare("head_dim", wanted.head_width(), "head_dim", found.head_width());
  compare("ff_dim", wanted.ff_dim, "intermediate_size", found.ff_dim);
  compare("vocab", wanted.vocab, "vocab_size", found.vocab);
  compare("norm_eps", wanted.norm_eps, "rms_norm_eps", found.norm_eps);
  compare("rope_theta", wanted.rope_theta, "rope_theta", found.rope_theta);
  compare("rope_scaling", ScalingText(wanted.rope_scaling), "rope_scaling",
          ScalingText(found.rope_scaling));
  compare("qk_norm", wanted.qk_norm, "the architecture", found.qk_norm);
  compare("tie_embeddings", wanted.tie_embeddings, "tie_word_embeddings", found.tie_embeddings);
  return differences;
}

std::string WriteHfConfig(const HfConfig& config, ElementType type) {
  const TransformerShape& shape = config.shape;
  const char* const dtype = type == ElementType::kBf16 ? "bfloat16" : "float32";
  using OrderedJson = nlohmann::ordered_json;
  OrderedJson json = {
      {"architectures", {shape.qk_norm ? kQwen3 : kLlama}},
      {"model_type", shape.qk_norm ? "qwen3" : "llama"},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"bos_token_id", OrderedJson::parse(config.bos)},
      {"eos_token_id", OrderedJson::parse(config.eos)},
      {"pad_token_id", OrderedJson::parse(config.pad)},
      {"head_dim", shape.head_width()},
      {"hidden_act", "silu"},
      {"hidden_size", shape.dim},
      {"initializer_range", 0.02},
      {"intermediate_size", shape.ff_dim},
      {"max_position_embeddings", shape.positions != 0 ? shape.positions : shape.context},
      {"num_attention_heads", shape.heads},
      {"num_hidden_layers", shape.layers},
      {"num_key_value_heads", shape.kv_heads},
      {"rms_norm_eps", shape.norm_eps},
      {"rope_theta", shape.rope_theta},
      {"rope_scaling", nullptr},
      {"tie_word_embeddings", shape.tie_embeddings},
      {"torch_dtype", dtype},
      {"dtype", dtype},
      {"use_cache", true},
      {"vocab_size", shape.vocab}};
  if (shape.qk_norm) {
    json["use_sliding_window"] = false;
  } else {
    json["mlp_bias"] = false;
  }
  const RopeScaling& scaling = shape.rope_scaling;
  if (scaling.kind == RopeScaling::Kind::kLinear)
    json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", scaling.factor}};
  if (scaling.kind == RopeScaling::Kind::kLlama3) {
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", scaling.factor},
                            {"low_freq_factor", scaling.low_freq_factor},
                            {"high_freq_factor", scaling.high_freq_factor},
                            {"original_max_position_embeddings", scaling.original_context}};
  }
  if (config.separate_documents) json[kSeparateDocuments] = true;
  return json.dump(2) + "\n";
}

}  // namespace longhaul
