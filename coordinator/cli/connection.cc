#include "coordinator/cli/connection.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/host_port.h"
#include "common/base/nearest_name.h"
#include "common/base/status_macros.h"
#include "common/config/yaml_json.h"
#include "common/rpc/secret_file.h"
#include "common/rpc/tls.h"
#include "coordinator/cli/spec_file.h"

namespace longhaul::cli {
namespace {

constexpr char kDefaultAddress[] = "localhost:7070";

absl::Status CheckServer(const std::string& address, const std::string& source) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (parsed.ok() && parsed->port > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": ",
                   parsed.ok() ? absl::StrCat("\"", address, "\": port 0 is not a valid port")
                               : parsed.status().message(),
                   " (for example coordinator.example.org:7070)"));
}

// The content of the file.
struct ConfigFile {
  std::string path, current;
  Connection base;
  std::vector<Context> contexts;
};

void ReadMember(const Json& group, const std::string& field, const char* key, std::string* value,
                ViolationList& violations) {
  if (!group.contains(key)) return;
  if (!group[key].is_string() || group[key].get<std::string>().empty()) {
    violations.Invalid(absl::StrCat(field, key), "expected text");
  } else {
    *value = group[key].get<std::string>();
  }
}

bool CheckKeys(const Json& group, const std::string& field, const std::vector<std::string>& known,
               ViolationList& violations) {
  if (!group.is_object()) {
    violations.Invalid(field.empty() ? "" : field.substr(0, field.size() - 1),
                       absl::StrCat("expected ", known[0], ": ..."));
    return false;
  }
  for (const auto& [key, value] : group.items()) {
    bool found = false;
    for (const std::string& name : known) found = found || name == key;
    if (!found)
      violations.Invalid(absl::StrCat(field, key), "unknown key", NearestNameHint(key, known));
  }
  return true;
}

void InFolder(const std::string& folder, std::string* path) {
  if (!path->empty()) *path = (std::filesystem::path(folder) / *path).string();
}

// `field`: the path before its keys, with a dot at its end.
void ReadConnection(const Json& group, const std::string& field, const std::string& folder,
                    Connection* connection, ViolationList& violations) {
  ReadMember(group, field, "server", &connection->server, violations);
  ReadMember(group, field, "token_file", &connection->token_file, violations);
  InFolder(folder, &connection->token_file);
  if (!group.contains("tls")) return;
  const std::string inside = absl::StrCat(field, "tls.");
  if (!CheckKeys(group["tls"], inside, {"ca", "certificate", "key"}, violations)) return;
  TlsFiles& files = connection->tls;
  ReadMember(group["tls"], inside, "ca", &files.ca, violations);
  ReadMember(group["tls"], inside, "certificate", &files.certificate, violations);
  ReadMember(group["tls"], inside, "key", &files.key, violations);
  for (std::string* path : {&files.ca, &files.certificate, &files.key}) InFolder(folder, path);
}

void ReadContexts(const Json& config, const std::string& folder, ConfigFile* file,
                  ViolationList& violations) {
  if (!config.contains("contexts")) return;
  if (!config["contexts"].is_object()) {
    violations.Invalid("contexts", "expected NAME: {server: host:port}");
    return;
  }
  for (const auto& [name, group] : config["contexts"].items()) {
    const std::string field = absl::StrCat("contexts.", name, ".");
    Context context{.name = name};
    if (CheckKeys(group, field, {"server", "tls", "token_file"}, violations))
      ReadConnection(group, field, folder, &context.connection, violations);
    if (group.is_object() && !group.contains("server"))
      violations.Invalid(absl::StrCat(field, "server"), "is required");
    file->contexts.push_back(std::move(context));
  }
}

absl::StatusOr<ConfigFile> ReadConfig(const Environment& environment) {
  ConfigFile file{.path = ConfigPath(environment)};
  if (file.path.empty()) return file;
  const absl::StatusOr<std::string> text = ReadTextFile(file.path);
  if (absl::IsNotFound(text.status())) return file;
  if (!text.ok()) return text.status();
  ViolationList violations;
  const Json config = ParseYaml(*text, violations);
  const std::string folder = std::filesystem::path(file.path).parent_path().string();
  if (violations.empty() &&
      CheckKeys(config, "", {"server", "tls", "token_file", "context", "contexts"}, violations)) {
    ReadConnection(config, "", folder, &file.base, violations);
    ReadMember(config, "", "context", &file.current, violations);
    ReadContexts(config, folder, &file, violations);
  }
  if (violations.empty()) return file;
  return absl::InvalidArgumentError(
      absl::StrCat(file.path, ": ", ViolationsToStatus(violations.all()).message()));
}

absl::StatusOr<const Connection*> FindContext(const ConfigFile& file, const std::string& name,
                                              const std::string& source) {
  std::vector<std::string> names;
  for (const Context& context : file.contexts) {
    if (context.name == name) return &context.connection;
    names.push_back(context.name);
  }
  const std::string hint = names.empty() ? "the file has none" : NearestNameHint(name, names);
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": no context \"", name, "\" in ",
                   file.path.empty() ? "~/.config/longhaul/config.yaml" : file.path,
                   hint.empty() ? "" : absl::StrCat(" (", hint, ")")));
}

// Takes the first value that is given.
struct Choice {
  std::string value, from;
  Choice& Or(const std::string& other, const std::string& source) {
    if (value.empty() && !other.empty()) value = other, from = source;
    return *this;
  }
};

}  // namespace

std::string ConfigPath(const Environment& environment) {
  if (const auto base = environment.variable("XDG_CONFIG_HOME"); base && !base->empty()) {
    return *base + "/longhaul/config.yaml";
  }
  if (const auto home = environment.variable("HOME"); home && !home->empty()) {
    return *home + "/.config/longhaul/config.yaml";
  }
  return "";
}

absl::StatusOr<Connection> ConnectionOf(const Arguments& arguments,
                                        const Environment& environment) {
  const bool named = !arguments.context.empty();
  // Values of a context on the command line are not mixed with values of the environment.
  const auto variable = [&](const char* name) {
    return named ? std::string() : environment.variable(name).value_or("");
  };
  const Choice given =
      Choice().Or(arguments.server, "--server").Or(variable("LONGHAUL_SERVER"), "LONGHAUL_SERVER");
  absl::StatusOr<ConfigFile> file = ReadConfig(environment);
  if (!file.ok()) {
    // A mistake in the file must not stop a user who does not need the file.
    if (named || given.value.empty()) return file.status();
    file = ConfigFile();
  }
  const Choice context = Choice()
                             .Or(arguments.context, "--context")
                             .Or(variable("LONGHAUL_CONTEXT"), "LONGHAUL_CONTEXT")
                             .Or(file->current, file->path);
  Connection usual = file->base;
  std::string usual_from = file->path;
  if (!context.value.empty()) {
    LH_ASSIGN_OR_RETURN(const Connection* found, FindContext(*file, context.value, context.from));
    usual = *found;
    absl::StrAppend(&usual_from, ", context ", context.value);
  }
  const Choice server =
      Choice(given).Or(usual.server, usual_from).Or(kDefaultAddress, "the default");
  LH_RETURN_IF_ERROR(CheckServer(server.value, server.from));
  Connection result{.context = context.value, .server = server.value, .server_from = server.from};
  result.token_file = Choice()
                          .Or(arguments.token_file, "")
                          .Or(variable("LONGHAUL_TOKEN_FILE"), "")
                          .Or(usual.token_file, "")
                          .value;
  const auto choose = [&](std::string TlsFiles::*member, const char* name) {
    result.tls.*member = Choice()
                             .Or(arguments.tls.*member, "")
                             .Or(variable(name), "")
                             .Or(usual.tls.*member, "")
                             .value;
  };
  choose(&TlsFiles::ca, "LONGHAUL_TLS_CA");
  choose(&TlsFiles::certificate, "LONGHAUL_TLS_CERTIFICATE");
  choose(&TlsFiles::key, "LONGHAUL_TLS_KEY");
  return result;
}

absl::StatusOr<ClientAccess> AccessOf(const Connection& connection) {
  const TlsFiles& files = connection.tls;
  ClientAccess access{.files = files, .token_file = connection.token_file};
  const bool token = !access.token_file.empty();
  if (token && files.ca.empty()) {
    return absl::InvalidArgumentError(
        "--token-file needs --tls-ca: a token is never sent in plaintext");
  }
  if (token) LH_RETURN_IF_ERROR(ReadTokenFile("--token-file", access.token_file).status());
  const bool certificate = !files.certificate.empty() || !files.key.empty();
  if (!token && !certificate && !files.ca.empty()) {
    LH_RETURN_IF_ERROR(ReadAuthorities(files.ca).status());
    return absl::InvalidArgumentError(
        "--tls-ca alone does not identify you: give --tls-certificate and --tls-key, and "
        "--token-file if the coordinator requires a token");
  }
  LH_ASSIGN_OR_RETURN(
      access.tls, token && !certificate ? Tls::LoadAuthorities(files.ca) : LoadTlsIfGiven(files));
  return access;
}

absl::StatusOr<std::vector<Context>> ContextsOf(const Arguments& arguments,
                                                const Environment& environment) {
  LH_ASSIGN_OR_RETURN(ConfigFile file, ReadConfig(environment));
  std::string current = arguments.context;
  if (current.empty()) current = environment.variable("LONGHAUL_CONTEXT").value_or("");
  if (current.empty()) current = file.current;
  for (Context& context : file.contexts) context.current = context.name == current;
  return std::move(file.contexts);
}

}  // namespace longhaul::cli
