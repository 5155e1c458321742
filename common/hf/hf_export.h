// Writes a model as a Hugging Face folder that `transformers.AutoModelForCausalLM.from_pretrained`
// loads. The folder appears whole, under its name, or not at all.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/hf/hf_config.h"
#include "common/io/filesystem.h"
#include "common/layout/initial_parameters.h"
#include "common/layout/model_layout.h"

namespace longhaul {

struct HfExportOptions {
  HfConfig config;                         // Of the model.
  ElementType type = ElementType::kBf16;   // Or kF32.
  int64_t file_bytes_max = 5'000'000'000;  // Of tensors in a file; a larger tensor has one alone.
  // A Hugging Face folder whose tokenizer and generation_config.json are carried along, and whose
  // config.json says the special tokens if `config` does not. Empty: none.
  std::string like;
};

struct HfExport {
  int files = 0;                     // Of parameters.
  int64_t bytes = 0;                 // Of them.
  std::vector<std::string> carried;  // Names of the files that came from `like`.
};

// Writes to `folder`.tmp, and renames. Memory: some MiB, whatever the model. ALREADY_EXISTS: something
// is there. INVALID_ARGUMENT: `like` is no folder. FAILED_PRECONDITION: transformers has no such model (without
// qk_norm, dim must be a multiple of heads). Else the errors of `parameters` and `fs`.
// Blocks.
absl::StatusOr<HfExport> ExportHf(FileSystem& fs, const ModelLayout& layout,
                                  const InitialParameters& parameters,
                                  const HfExportOptions& options, const std::string& folder);

}  // namespace longhaul
