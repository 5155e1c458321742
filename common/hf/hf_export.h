// Writes a model as a Hugging Face folder that `transformers.AutoModelForCausalLM.from_pretrained`
// loads. The folder gets its name only when it is complete.
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
  // The model's.
  HfConfig config;
  // The text of config.json for a model that transformers does not have; then `config` and `like`
  // have no meaning. Empty: it follows from `config`.
  std::string config_text = {};
  // kBf16 or kF32.
  ElementType type = ElementType::kBf16;
  // The most bytes of tensors in a file. A larger tensor has a file alone.
  int64_t file_bytes_max = 5'000'000'000;
  // A Hugging Face folder whose tokenizer and generation_config.json are copied. Its config.json
  // gives the special tokens if `config` does not, and the architecture's name (HfConfig.mistral)
  // if it describes the same model. Empty: none.
  std::string like;
};

struct HfExport {
  // How many files of parameters.
  int files = 0;
  // The bytes of all parameters.
  int64_t bytes = 0;
  // Names of the files that came from `like`.
  std::vector<std::string> carried;
};

// Writes to `folder`.tmp, and renames it. Memory: some MiB for any model. Blocks. ALREADY_EXISTS:
// `folder` exists. INVALID_ARGUMENT: `like` is not a folder. FAILED_PRECONDITION: transformers has
// no such model (without qk_norm, dim must be a multiple of heads). Other errors: those of
// `parameters` and `fs`.
absl::StatusOr<HfExport> ExportHf(FileSystem& fs, const ModelLayout& layout,
                                  const InitialParameters& parameters,
                                  const HfExportOptions& options, const std::string& folder);

}  // namespace longhaul
