// A spec as a user writes it, YAML or JSON, with `--set` of the command line; what it resolves to.
// The same document as a program's configuration file.
//   input: lines "--set PATH=VALUE", if any, then the document
#include <set>
#include <string>
#include <vector>

#include "absl/strings/strip.h"
#include "common/config/job_spec.h"
#include "common/config/load.h"
#include "common/config/yaml_settings.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace longhaul::fuzz::job_spec_fuzz {
namespace {

std::vector<std::string> TakeOverrides(absl::string_view* text) {
  std::vector<std::string> overrides;
  while (absl::ConsumePrefix(text, "--set ")) {
    const absl::string_view line = text->substr(0, text->find('\n'));
    overrides.emplace_back(line);
    text->remove_prefix(std::min(text->size(), line.size() + 1));
  }
  return overrides;
}

void CheckSettings(absl::string_view text) {
  ViolationList violations;
  std::set<std::string> names;
  for (const YamlSetting& setting : ParseYamlSettings(text, violations)) {
    LH_CHECK(names.insert(setting.name).second, "a setting is given once");
    LH_CHECK(setting.line > 0, "a setting has its line");
  }
  LH_CHECK(violations.empty() || names.empty(), "a file with a mistake says nothing");
}

void CheckViolations(const absl::Status& status, const std::vector<SpecViolation>& violations) {
  LH_CHECK(status.ok() == violations.empty(), "an error has its violations");
  for (const SpecViolation& violation : violations) {
    LH_CHECK(!violation.description.empty(), "a violation says what was found");
  }
}

void CheckResolved(const ResolvedJob& job) {
  int64_t elements = 0;
  for (const FragmentLayout& fragment : job.fragments) {
    for (const UnitSpan& unit : fragment.units) elements += unit.elements;
  }
  LH_CHECK(elements == job.model.elements(), "each parameter is in one fragment");
  LH_CHECK(job.schedule.size() == job.fragments.size(), "a schedule for each fragment");
  const absl::StatusOr<ResolvedJob> again = ResolveJobSpec(job.spec);
  LH_CHECK(again.ok() && again->spec.SerializeAsString() == job.spec.SerializeAsString(),
           "a resolved spec stays as it is");
}

}  // namespace

std::vector<Seed> Seeds() {
  const std::string model =
      "model: {transformer: {layers: 4, dim: 96, heads: 4, ff_dim: 256, "
      "context: 128}}\ndata: {text: {path: text.txt}}\n";
  return {{"defaults", "name: a\n" + model + "train: {steps: 100, batch: 4}\n"},
          {"overrides",
           "--set sync.h=10\n--set data.tokens.path=t.bin\n--set pools={min: 3}\n"
           "name: b\n" +
               model + "train: {steps: 1000, batch: 4}\n"},
          {"sync", "name: c\n" + model +
                       "train: {steps: 600, batch: 1}\nsync:\n  h: 30\n  tau: 1\n  alpha: 0.5\n"
                       "  fragments: {layers: 2, order: strided}\n"
                       "  outer: {lr: 0.7, momentum: 0.5}\n  up: {codec: e3m0}\n"
                       "evaluation: {every_cycles: 2, batches: 8}\n"},
          {"synthetic", R"({"name": "d", "model": {"synthetic": {"units": 3, "elements": "300",
"inner_delta": [-2, 1e-3]}}, "train": {"steps": 15}, "sync": {"up": {"codec": "FP32"}}})"},
          {"aliases", "x: &a [1, 2]\ny: [*a, *a]\n? [z]\n: !!str 'q'\n--- |\n  t\n"},
          {"wrong", "name: Not A Name\nmodel: {transformer: {layres: 4, dim: [1], heads: -1}}\n"}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  absl::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> overrides = TakeOverrides(&text);
  CheckSettings(text);
  std::vector<SpecViolation> violations;
  const absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(text, overrides, &violations);
  CheckDocumented(spec.status(), {absl::StatusCode::kInvalidArgument});
  CheckViolations(spec.status(), violations);
  if (!spec.ok()) return 0;
  const absl::StatusOr<ResolvedJob> job = ResolveJobSpec(*spec, &violations);
  CheckDocumented(job.status(),
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented});
  CheckViolations(job.status(), violations);
  if (job.ok()) CheckResolved(*job);
  return 0;
}

}  // namespace longhaul::fuzz::job_spec_fuzz
