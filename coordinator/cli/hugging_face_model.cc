#include "coordinator/cli/hugging_face_model.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/initial_folder.h"
#include "common/config/data_sources.h"
#include "common/config/hugging_face_spec.h"
#include "common/hf/hf_config.h"
#include "common/hf/hf_model.h"
#include "common/io/file_content.h"

namespace longhaul::cli {
namespace {

constexpr char kField[] = "model.hf.path";

}  // namespace

std::vector<SpecViolation> ResolveHuggingFaceModel(v1::JobSpec& spec) {
  v1::ModelSpec& model = *spec.mutable_model();
  if (!model.has_hf() || model.hf().path().empty() ||
      (model.kind_case() != v1::ModelSpec::KIND_NOT_SET && !model.has_transformer())) {
    return {};  // ResolveJobSpec refuses it.
  }
  FillTokenizers(spec);
  const absl::StatusOr<HfConfig> config = ReadHfConfig(model.hf().path());
  const bool dangling = !DanglingLink(absl::StrCat(model.hf().path(), "/config.json")).empty();
  if (absl::IsNotFound(config.status()) && !dangling) {
    // ResolveJobSpec names what else is missing.
    if (model.transformer().layers() != 0 || !model.transformer().size().empty()) return {};
    const std::string hub = HubHint(model.hf().path());
    return {{kField, absl::StrCat("no config.json in ", model.hf().path(), " on this machine"),
             !hub.empty() ? hub
                          : "submit from a machine that has the folder, or write "
                            "model.transformer in the spec"}};
  }
  if (!config.ok()) return {{kField, std::string(config.status().message()), ""}};
  std::vector<SpecViolation> violations = TakeShape(*config, *model.mutable_transformer());
  return violations.empty() ? TakeDataDigests(model.hf().path(), spec) : violations;
}

}  // namespace longhaul::cli
