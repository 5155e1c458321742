// The parameters of a Hugging Face folder: model.safetensors, or the files that
// model.safetensors.index.json names. Values in float32, bfloat16 or float16 become float32. Files are
// mapped: what is not read costs nothing.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/layout/initial_parameters.h"
#include "common/layout/model_layout.h"

namespace longhaul {

// Reads the headers and finds every tensor of `layout`. NOT_FOUND: no such folder or file.
// INVALID_ARGUMENT: a file is no safetensors file, the index is malformed, tensors are missing,
// surplus, of another shape or of another type; each is named (at most 40 of a kind). lm_head.weight
// beside tied embeddings and buffers of rotary positions are no surplus. Blocks.
absl::StatusOr<std::unique_ptr<InitialParameters>> OpenHfParameters(const std::string& folder,
                                                                    const ModelLayout& layout);

}  // namespace longhaul
