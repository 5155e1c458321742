// config.json of a Hugging Face folder (transformers 4 and 5), and the shape of the model that it
// describes. LlamaForCausalLM and Qwen3ForCausalLM correspond to this program's transformer: any
// head width, grouped queries, tied embeddings, linear and Llama 3 rotary scaling, and Qwen3's
// norms of queries and keys.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/layout/model_layout.h"
#include "common/safetensors/element_type.h"

namespace longhaul {

inline constexpr int64_t kHfConfigBytesMax = 1 << 20;
inline constexpr int64_t kHfContextDefault = 2048;

struct HfConfig {
  // Its context is the number of positions, but at most kHfContextDefault.
  TransformerShape shape;
  // JSON of bos_token_id, eos_token_id, pad_token_id: a number, a list of numbers, or null.
  std::string bos = "null", eos = "null", pad = "null";
  // It is a MistralForCausalLM without a sliding window: the layout of Llama by another name, which
  // an export keeps.
  bool mistral = false;
  // It was trained with data.separate_documents. Written, if so, as a field of its own, which
  // transformers keeps and does not use.
  bool separate_documents = false;
};

// INVALID_ARGUMENT: not JSON, or fields are missing or impossible. UNIMPLEMENTED: the architecture
// is not supported (the message says what can be done), or some of its settings are not. The
// message names all of them.
absl::StatusOr<HfConfig> ParseHfConfig(absl::string_view json);

// Reads config.json of `folder`. Also NOT_FOUND. Messages begin with the path.
absl::StatusOr<HfConfig> ReadHfConfig(const std::string& folder);

// The tokens with which generated text ends, as transformers has it: eos_token_id of
// generation_config.json in `folder`, else of config.json; none if neither says any, or is there.
// Errors: those of ParseHfConfig, with the path, if generation_config.json is malformed.
absl::StatusOr<std::vector<int64_t>> ReadEndTokens(const std::string& folder);
// Of the text of either file. Empty: it has none. INVALID_ARGUMENT: not JSON, or no token ids.
absl::StatusOr<std::vector<int64_t>> ParseEndTokens(absl::string_view json);

// The differences between a model of shape `wanted` and `config`, for example "dim: found 64,
// hidden_size in config.json is 48". Context and positions are not compared, since the user chooses
// them.
std::vector<std::string> DifferencesFrom(const HfConfig& config, const TransformerShape& wanted);

// A config.json for transformers 4 and 5: that of Qwen3ForCausalLM with qk_norm, otherwise that of
// LlamaForCausalLM, or of MistralForCausalLM if the model was one. `type` is the type of the stored
// parameters.
std::string WriteHfConfig(const HfConfig& config, ElementType type);

}  // namespace longhaul
