#include "common/config/load.h"

#include "common/config/defaults.h"
#include "common/config/overrides.h"
#include "common/config/schema_check.h"
#include "common/config/violation_list.h"
#include "common/config/yaml_json.h"
#include "google/protobuf/util/json_util.h"

namespace longhaul {
namespace {

v1::JobSpec Parse(absl::string_view text, const std::vector<std::string>& overrides,
                  ViolationList& violations) {
  v1::JobSpec spec;
  Json document = ParseYaml(text, violations);
  if (!violations.empty()) return spec;
  for (const std::string& assignment : overrides) {
    ApplyOverride(*spec.GetDescriptor(), assignment, document, violations);
  }
  CheckAgainstSchema(*spec.GetDescriptor(), DefaultOf, document, violations);
  if (!violations.empty()) return spec;
  try {
    const auto status = google::protobuf::util::JsonStringToMessage(document.dump(), &spec);
    if (!status.ok()) violations.Invalid("", status.ToString());
    // The text is not UTF-8, which is the only reason why nlohmann cannot write a value.
  } catch (const Json::exception&) {
    violations.Invalid("", "found text that is not UTF-8");
  }
  return spec;
}

}  // namespace

absl::StatusOr<v1::JobSpec> ParseJobSpec(absl::string_view text,
                                         const std::vector<std::string>& overrides,
                                         std::vector<SpecViolation>* violations) {
  ViolationList found;
  v1::JobSpec spec = Parse(text, overrides, found);
  if (violations != nullptr) *violations = found.all();
  if (!found.empty()) return ViolationsToStatus(found.all());
  return spec;
}

}  // namespace longhaul
