#include "common/hf/hf_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
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
constexpr char kLlama[] = "LlamaForCausalLM", kQwen3[] = "Qwen3ForCausalLM",
               kMistral[] = "MistralForCausalLM";

// Reads the fields of an object with the types that they should have. Collects all mistakes.
class Fields {
 public:
  Fields(const Json& json, std::vector<std::string>& wrong) : json_(json), wrong_(wrong) {}

  bool Has(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }
  bool IsNull(const char* name) const { return json_.contains(name) && json_[name].is_null(); }
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

// What other architectures have that these models do not. The first row whose word is in the name.
struct OtherArchitecture {
  const char *word, *reason;
};
constexpr OtherArchitecture kOtherArchitectures[] = {
    {"moe", "it is a mixture of experts"},
    {"mixtral", "it is a mixture of experts"},
    {"deepseekv", "it is a mixture of experts with latent attention"},
    {"gptoss", "it is a mixture of experts"},
    {"conditionalgeneration",
     "it has more than a language model; its language model alone may fit"},
    {"qwen2", "its attention has biases; Qwen3ForCausalLM has none"},
    {"gpt2", "it has learned positions, LayerNorm and biases"},
    {"gptneox", "it has LayerNorm, biases and a partial rotation"},
    {"gptj", "it has LayerNorm, biases and a partial rotation"},
    {"opt", "it has learned positions, LayerNorm and biases"},
    {"bloom", "it has ALiBi positions, LayerNorm and biases"},
    {"mpt", "it has ALiBi positions and LayerNorm"},
    {"falcon", "it has LayerNorm and parallel blocks"},
    {"phi3", "its q, k, v and its gate, up are stored as one tensor each"},
    {"phi", "it has LayerNorm, biases and a partial rotation"},
    {"gemma", "it has other norms, GELU and a scaled embedding"},
    {"olmo", "its norms are elsewhere or have no weights"},
    {"stablelm", "it has LayerNorm and a partial rotation"},
    {"starcoder", "it has LayerNorm and biases"},
    {"cohere", "it has LayerNorm and parallel blocks"},
    {"mamba", "it is not a transformer"},
    {"rwkv", "it is not a transformer"},
};

absl::Status Unsupported(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  std::string reason, next;
  for (const OtherArchitecture& other : kOtherArchitectures) {
    if (!reason.empty() || !absl::StrContains(lower, other.word)) continue;
    reason = absl::StrCat(": ", other.reason);
  }
  if (reason.empty()) {
    next = absl::StrCat("; if it has the layout of Llama by another name, write ", kLlama,
                        " and model_type llama into a copy of its config.json: tensors that do not "
                        "fit are named then");
  }
  return absl::UnimplementedError(absl::StrCat("architectures: ", name.substr(0, 80),
                                               " is not supported", reason, "; supported are ",
                                               kLlama, " (also SmolLM2, TinyLlama), ", kMistral,
                                               " without a sliding window, and ", kQwen3, next));
}

absl::StatusOr<std::string> ArchitectureOf(const Json& json) {
  std::string name;
  if (json.contains("architectures") && json["architectures"].is_array() &&
      !json["architectures"].empty() && json["architectures"][0].is_string()) {
    name = json["architectures"][0].get<std::string>();
  } else if (json.contains("model_type") && json["model_type"].is_string()) {
    const auto type = json["model_type"].get<std::string>();
    name = type == "llama"     ? kLlama
           : type == "qwen3"   ? kQwen3
           : type == "mistral" ? kMistral
                               : type;
  }
  if (name == kLlama || name == kQwen3 || name == kMistral) return name;
  if (name.empty()) return absl::InvalidArgumentError("architectures: is missing");
  return Unsupported(name);
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

// transformers' default of a Mistral is a window of 4,096. One that has all positions hides
// nothing.
void RefuseWindow(const Fields& top, const TransformerShape& shape,
                  std::vector<std::string>& lacking) {
  const bool none = top.IsNull("sliding_window");
  const int64_t window = none ? shape.positions : top.Integer("sliding_window", 4096);
  if (window >= shape.positions) return;
  lacking.push_back(
      absl::StrCat("sliding_window: ", window, " is not supported; up to ", window,
                   " tokens the model is the same without it: write sliding_window null and "
                   "max_position_embeddings ",
                   window, " into a copy of its config.json"));
}

TransformerShape ShapeOfFields(const Fields& top, bool qwen3, bool mistral) {
  TransformerShape shape{.layers = top.Integer("num_hidden_layers"),
                         .dim = top.Integer("hidden_size"),
                         .heads = top.Integer("num_attention_heads"),
                         .ff_dim = top.Integer("intermediate_size"),
                         .vocab = top.Integer("vocab_size"),
                         .norm_eps = top.Number("rms_norm_eps", 1e-6),
                         .qk_norm = qwen3,
                         .tie_embeddings = top.Flag("tie_word_embeddings", /*absent=*/false),
                         .positions = top.Integer("max_position_embeddings", mistral ? 131072
                                                                             : qwen3 ? 32768
                                                                                     : 2048)};
  shape.kv_heads = top.Integer("num_key_value_heads", mistral ? 8 : qwen3 ? 32 : shape.heads);
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
  const bool mistral = architecture == kMistral;
  HfConfig config{.shape = ShapeOfFields(top, architecture == kQwen3, mistral), .mistral = mistral};
  ReadRope(json, top, config.shape, wrong, lacking);
  if (mistral) RefuseWindow(top, config.shape, lacking);
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
      {"architectures",
       {shape.qk_norm    ? kQwen3
        : config.mistral ? kMistral
                         : kLlama}},
      {"model_type", shape.qk_norm    ? "qwen3"
                     : config.mistral ? "mistral"
                                      : "llama"},
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
  } else if (config.mistral) {
    json["sliding_window"] = nullptr;  // Absent, it would be 4,096.
    json.erase("attention_bias");
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
