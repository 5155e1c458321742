#include "common/config/load.h"

#include "common/config/defaults.h"
#include "common/config/overrides.h"
#include "common/config/schema_check.h"
#include "common/config/violation_list.h"
#include "common/config/yaml_json.h"
#include "google/protobuf/util/json_util.h"

namespace longhaul {

void ParseYamlMessage(absl::string_view text, const std::vector<std::string>& overrides,
                      absl::string_view (*zero_default)(absl::string_view path),
                      google::protobuf::Message& message, ViolationList& violations) {
  Json document = ParseYaml(text, violations);
  if (!violations.empty()) return;
  for (const std::string& assignment : overrides) {
    ApplyOverride(*message.GetDescriptor(), assignment, document, violations);
  }
  CheckAgainstSchema(*message.GetDescriptor(), zero_default, document, violations);
  if (!violations.empty()) return;
  try {
    const auto status = google::protobuf::util::JsonStringToMessage(document.dump(), &message);
    if (!status.ok()) violations.Invalid("", status.ToString());
    // The text is not UTF-8, which is the only reason why nlohmann cannot write a value.
  } catch (const Json::exception&) {
    violations.Invalid("", "found text that is not UTF-8");
  }
}

absl::StatusOr<v1::JobSpec> ParseJobSpec(absl::string_view text,
                                         const std::vector<std::string>& overrides,
                                         std::vector<SpecViolation>* violations) {
  ViolationList found;
  v1::JobSpec spec;
  ParseYamlMessage(text, overrides, DefaultOf, spec, found);
  if (violations != nullptr) *violations = found.all();
  if (!found.empty()) return ViolationsToStatus(found.all());
  return spec;
}

}  // namespace longhaul
