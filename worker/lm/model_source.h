// Where a model to be used comes from: a checkpoint's folder or a Hugging Face folder.
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
  std::string origin;  // A Hugging Face folder that may have the tokenizer; empty: none.
};

// The errors of CheckpointFolder::Open, if it has a manifest.json; else of OpenHfModel.
absl::StatusOr<ModelSource> OpenModel(const std::string& folder);

}  // namespace longhaul
