// The parameters of a Hugging Face folder: model.safetensors, or the files that
// model.safetensors.index.json names. Values in float32, bfloat16 or float16 become float32. Files
// are read in parts, so parameters that are not read cost nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/layout/initial_parameters.h"
#include "common/layout/model_layout.h"

namespace longhaul {

// The names of the files that a model's folder needs: config.json and those of its parameters, as
// OpenHfParameters finds them. NOT_FOUND: there are none of parameters, or one is a dangling link.
// INVALID_ARGUMENT: the index is malformed. Blocks.
absl::StatusOr<std::vector<std::string>> HfFilesOf(const std::string& folder);

// Reads the headers and finds every tensor of `layout`. NOT_FOUND: no such folder or file.
// INVALID_ARGUMENT: a file is not a safetensors file, the index is malformed, or tensors are
// missing, surplus, of another shape or of another type. Each is named (at most 40 of a kind).
// lm_head.weight beside tied embeddings and buffers of rotary positions are not surplus; of tied
// embeddings lm_head.weight may be the only name. Blocks.
absl::StatusOr<std::unique_ptr<InitialParameters>> OpenHfParameters(const std::string& folder,
                                                                    const ModelLayout& layout);

}  // namespace longhaul
