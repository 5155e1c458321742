#include "common/hf/hf_model.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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

std::string HubHint(absl::string_view path) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  const auto plain = [](absl::string_view part) {
    return !part.empty() && part.size() <= 96 && absl::ascii_isalnum(part[0]) &&
           std::all_of(part.begin(), part.end(), [](char c) {
             return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
           });
  };
  if (parts.size() != 2 || !plain(parts[0]) || !plain(parts[1])) return "";
  return absl::StrCat("models of the Hugging Face hub are not downloaded: `hf download ", path,
                      " --local-dir ", parts[1], "`, then give that folder");
}

absl::StatusOr<HfModel> OpenHfModel(const std::string& folder) {
  HfModel model;
  LH_ASSIGN_OR_RETURN(model.config, ReadHfConfig(folder));
  LH_ASSIGN_OR_RETURN(model.layout, LayOutTransformer(model.config.shape));
  LH_ASSIGN_OR_RETURN(model.parameters, OpenHfParameters(folder, model.layout));
  return model;
}

}  // namespace longhaul
