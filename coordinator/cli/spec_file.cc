#include "coordinator/cli/spec_file.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/config/yaml_json.h"

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

}  // namespace longhaul::cli
