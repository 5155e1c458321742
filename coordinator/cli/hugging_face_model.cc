#include "coordinator/cli/hugging_face_model.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/config/transformer_spec.h"
#include "common/hf/hf_config.h"

namespace longhaul::cli {
namespace {

constexpr char kField[] = "model.hf.path";

}  // namespace

std::vector<SpecViolation> ResolveHuggingFaceModel(v1::JobSpec& spec) {
  v1::ModelSpec& model = *spec.mutable_model();
  if (!model.has_hf() || model.hf().path().empty() ||
      (model.kind_case() != v1::ModelSpec::KIND_NOT_SET && !model.has_transformer())) {
    return {};  // Refused by who resolves the spec.
  }
  const absl::StatusOr<HfConfig> config = ReadHfConfig(model.hf().path());
  if (absl::IsNotFound(config.status())) {
    // What else is missing is named by who resolves the spec.
    if (model.transformer().layers() != 0 || !model.transformer().size().empty()) return {};
    return {{kField, absl::StrCat("no config.json in ", model.hf().path(), " on this machine"),
             "submit from a machine that has the folder, or write model.transformer out"}};
  }
  if (!config.ok()) return {{kField, std::string(config.status().message()), ""}};
  const v1::TransformerSpec& given = model.transformer();
  v1::TransformerSpec merged = SpecOf(config->shape);
  merged.MergeFrom(given);
  if (given.context() > merged.positions()) merged.set_positions(given.context());
  std::vector<SpecViolation> violations;
  if (!given.size().empty()) {
    violations.push_back({"model.transformer.size", "does not go with model.hf", "leave it out"});
  }
  for (const std::string& difference : DifferencesFrom(*config, ShapeOf(merged))) {
    const size_t colon = difference.find(": ");
    violations.push_back({absl::StrCat("model.transformer.", difference.substr(0, colon)),
                          difference.substr(colon + 2), "leave it out: the folder says it"});
  }
  if (violations.empty()) *model.mutable_transformer() = merged;
  return violations;
}

}  // namespace longhaul::cli
