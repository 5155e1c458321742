// A whole Hugging Face folder: the content of config.json, and the parameters.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/hf/hf_config.h"
#include "common/layout/initial_parameters.h"
#include "common/layout/model_layout.h"

namespace longhaul {

struct HfModel {
  HfConfig config;
  ModelLayout layout;
  std::unique_ptr<InitialParameters> parameters;
};

// Whether the folder has a config.json and is not a checkpoint's folder (manifest.json).
bool IsHfFolder(const std::string& folder);

// What to do if `path`, which is no folder, has the form of a model's id at the Hugging Face hub:
// "hf download ID --local-dir DIR". Empty: it has not.
std::string HubHint(absl::string_view path);

// Errors: those of ReadHfConfig, LayOutTransformer and OpenHfParameters.
absl::StatusOr<HfModel> OpenHfModel(const std::string& folder);

}  // namespace longhaul
