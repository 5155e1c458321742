#include "worker/lm/model_source.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_folder.h"
#include "common/hf/hf_model.h"

namespace longhaul {

absl::StatusOr<ModelSource> OpenModel(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat(
        folder, ": no such folder; ",
        HubHint(folder).empty()
            ? "give a job, the folder of a checkpoint (step-...) or of a Hugging Face model"
            : HubHint(folder)));
  }
  if (CheckpointFolder::IsOne(folder)) {
    LH_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointFolder> checkpoint,
                        CheckpointFolder::Open(folder));
    if (!checkpoint->manifest().model().has_transformer()) {
      return absl::FailedPreconditionError(
          absl::StrCat(folder, ": is not the checkpoint of a language model"));
    }
    std::string origin = CheckpointFolder::TokenizerOf(folder);
    if (origin.empty()) origin = checkpoint->manifest().model().hf().path();
    return ModelSource{
        .config = {.shape = checkpoint->shape(),
                   .separate_documents = checkpoint->manifest().separate_documents()},
        .parameters = std::move(checkpoint),
        .origin = std::move(origin)};
  }
  LH_ASSIGN_OR_RETURN(HfModel model, OpenHfModel(folder));
  return ModelSource{.config = std::move(model.config),
                     .parameters = std::move(model.parameters),
                     .origin = folder};
}

}  // namespace longhaul
