#include "coordinator/cli/server_address.h"

#include "absl/strings/str_cat.h"
#include "common/base/host_port.h"
#include "common/base/status_macros.h"
#include "common/config/nearest_name.h"
#include "common/config/yaml_json.h"
#include "coordinator/cli/spec_file.h"

namespace longhaul::cli {
namespace {

constexpr char kDefaultAddress[] = "localhost:7070";

absl::StatusOr<std::string> CheckAddress(const std::string& address, const std::string& source) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (parsed.ok() && parsed->port > 0) return address;
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": ",
                   parsed.ok() ? absl::StrCat("\"", address, "\": nobody listens on port 0")
                               : parsed.status().message(),
                   " (as coordinator.example.org:7070)"));
}

// Empty: no such file, or it names no server.
absl::StatusOr<std::string> AddressInFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (absl::IsNotFound(text.status())) return "";
  if (!text.ok()) return text.status();
  ViolationList violations;
  const Json config = ParseYaml(*text, violations);
  if (violations.empty() && !config.is_object())
    violations.Invalid("", "expected server: host:port");
  if (violations.empty()) {
    for (const auto& [key, value] : config.items()) {
      if (key != "server") violations.Invalid(key, "unknown key", NearestNameHint(key, {"server"}));
      if (key == "server" && !value.is_string())
        violations.Invalid(key, "expected host:port as text");
    }
  }
  if (!violations.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", ViolationsToStatus(violations.all()).message()));
  }
  return config.value("server", "");
}

std::string ConfigPath(const Environment& environment) {
  if (const auto base = environment.variable("XDG_CONFIG_HOME"); base && !base->empty()) {
    return *base + "/longhaul/config.yaml";
  }
  if (const auto home = environment.variable("HOME"); home && !home->empty()) {
    return *home + "/.config/longhaul/config.yaml";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> ServerAddress(const std::string& flag, const Environment& environment) {
  if (!flag.empty()) return CheckAddress(flag, "--server");
  if (const auto value = environment.variable("LONGHAUL_SERVER"); value && !value->empty()) {
    return CheckAddress(*value, "LONGHAUL_SERVER");
  }
  if (const std::string path = ConfigPath(environment); !path.empty()) {
    LH_ASSIGN_OR_RETURN(const std::string address, AddressInFile(path));
    if (!address.empty()) return CheckAddress(address, path);
  }
  return std::string(kDefaultAddress);
}

}  // namespace longhaul::cli
