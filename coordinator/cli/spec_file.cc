#include "coordinator/cli/spec_file.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/load.h"
#include "common/config/yaml_json.h"
#include "coordinator/cli/graph_schema.h"
#include "coordinator/cli/hugging_face_model.h"

namespace longhaul::cli {

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder"));
  }
  std::ifstream file(path, std::ios::binary);
  return ReadText(file, path);
}

absl::StatusOr<std::string> ReadText(std::istream& stream, const std::string& name) {
  std::string text(kYamlBytesMax + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad() || (stream.fail() && !stream.eof())) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": cannot be read"));
  }
  text.resize(stream.gcount());
  if (text.size() > kYamlBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": larger than 1 MiB"));
  }
  return text;
}

std::variant<v1::JobSpec, CliError> ReadJobSpec(const Arguments& arguments,
                                                const Environment& environment) {
  const absl::StatusOr<std::string> text = arguments.file == "-"
                                               ? ReadText(environment.in, "standard input")
                                               : ReadTextFile(arguments.file);
  if (!text.ok()) return UsageError(std::string(text.status().message()));
  std::vector<SpecViolation> violations;
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(*text, arguments.overrides, &violations);
  if (!spec.ok()) return ErrorOfSpec(spec.status(), violations);
  return *std::move(spec);
}

std::optional<CliError> ResolveFolders(v1::JobSpec& spec) {
  std::vector<SpecViolation> violations = ResolveHuggingFaceModel(spec);
  if (violations.empty()) violations = ResolveGraphSchema(spec);
  if (violations.empty()) return std::nullopt;
  return ErrorOfSpec(ViolationsToStatus(violations), violations);
}

}  // namespace longhaul::cli
