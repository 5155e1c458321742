// Opens a model's folder for use: a checkpoint or a Hugging Face model.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/hf/hf_config.h"
#include "common/layout/initial_parameters.h"

namespace longhaul {

struct ModelSource {
  HfConfig config;
  std::unique_ptr<InitialParameters> parameters;
  // The folder that may have the tokenizer: a Hugging Face model's, or the one that the job of a
  // checkpoint kept. Empty: there is none.
  std::string origin;
};

// Errors: those of CheckpointFolder::Open if the folder has a manifest.json, otherwise those of
// OpenHfModel.
absl::StatusOr<ModelSource> OpenModel(const std::string& folder);

}  // namespace longhaul
