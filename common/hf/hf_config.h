// config.json of a Hugging Face folder (transformers 4 and 5) and the shape of the model that it
// describes. LlamaForCausalLM and Qwen3ForCausalLM are this program's transformer: any head width,
// grouped queries, tied embeddings, linear and Llama 3 rotary scaling; Qwen3's norms of queries and
// keys.
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
  TransformerShape shape;  // Its context: the positions, at most kHfContextDefault.
  // JSON of bos_token_id, eos_token_id, pad_token_id: a number, a list of them, or null.
  std::string bos = "null", eos = "null", pad = "null";
};

// INVALID_ARGUMENT: not JSON, or fields are missing or impossible. UNIMPLEMENTED: the architecture,
// with the nearest supported, or what of it is not. All of it is named.
absl::StatusOr<HfConfig> ParseHfConfig(absl::string_view json);

// That of `folder`; also NOT_FOUND. Messages begin with the path.
absl::StatusOr<HfConfig> ReadHfConfig(const std::string& folder);

// Where a model of shape `wanted` is not what `config` describes, as "dim: found 64, hidden_size in
// config.json is 48". Context and positions are the trainer's own and are not compared.
std::vector<std::string> DifferencesFrom(const HfConfig& config, const TransformerShape& wanted);

// A config.json that transformers 4 and 5 read: of Qwen3ForCausalLM with qk_norm, else of
// LlamaForCausalLM. `type`: of the stored parameters.
std::string WriteHfConfig(const HfConfig& config, ElementType type);

}  // namespace longhaul
