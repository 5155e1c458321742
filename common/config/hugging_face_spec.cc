#include "common/config/hugging_face_spec.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/config/transformer_spec.h"

namespace longhaul {

std::vector<SpecViolation> TakeShape(const HfConfig& config, v1::TransformerSpec& spec) {
  v1::TransformerSpec merged = SpecOf(config.shape);
  merged.MergeFrom(spec);
  if (spec.context() > merged.positions()) merged.set_positions(spec.context());
  std::vector<SpecViolation> violations;
  if (!spec.size().empty()) {
    violations.push_back(
        {"model.transformer.size", "does not go with a Hugging Face folder", "leave it out"});
  }
  for (const std::string& difference : DifferencesFrom(config, ShapeOf(merged))) {
    const size_t colon = difference.find(": ");
    violations.push_back({absl::StrCat("model.transformer.", difference.substr(0, colon)),
                          difference.substr(colon + 2), "omit it: the folder defines it"});
  }
  if (violations.empty()) spec = merged;
  return violations;
}

}  // namespace longhaul
