#include "common/hf/hf_model.h"

#include <filesystem>

#include "common/base/status_macros.h"
#include "common/hf/hf_parameters.h"
#include "common/io/file_content.h"

namespace longhaul {

bool IsHfFolder(const std::string& folder) {
  const std::filesystem::path path(folder);
  std::error_code error;
  // Reading one says what is wrong with it.
  const std::string config = (path / "config.json").string();
  return (std::filesystem::is_regular_file(config, error) || !DanglingLink(config).empty()) &&
         !std::filesystem::exists(path / "manifest.json", error);
}

absl::StatusOr<HfModel> OpenHfModel(const std::string& folder) {
  HfModel model;
  LH_ASSIGN_OR_RETURN(model.config, ReadHfConfig(folder));
  LH_ASSIGN_OR_RETURN(model.layout, LayOutTransformer(model.config.shape));
  LH_ASSIGN_OR_RETURN(model.parameters, OpenHfParameters(folder, model.layout));
  return model;
}

}  // namespace longhaul
