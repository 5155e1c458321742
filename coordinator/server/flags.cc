#include "coordinator/server/flags.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "common/base/exit_code.h"
#include "common/command_line/help_page.h"
#include "common/command_line/usage_fault.h"
#include "common/command_line/value_checks.h"
#include "common/logging/flag_error.h"

namespace longhaul::coordinator {
namespace {

std::string EnvironmentName(const std::string& flag) {
  return absl::StrCat("LONGHAUL_", absl::AsciiStrToUpper(absl::StrReplaceAll(flag, {{"-", "_"}})));
}

constexpr double kGib = int64_t{1} << 30;

// Values of the command line as text, before they are checked.
struct Words {
  std::string lease = absl::FormatDuration(CoordinatorServerOptions().core.lease);
  double upload_gib = static_cast<double>(CoordinatorServerOptions().upload_bytes_max) / kGib;
  std::string upload_keep = absl::FormatDuration(CoordinatorServerOptions().upload_keep);
};

absl::Status Convert(const Words& words, Flags* flags) {
  if (!absl::ParseDuration(words.lease, &flags->server.core.lease) ||
      flags->server.core.lease < absl::Seconds(1) || flags->server.core.lease > absl::Hours(1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--lease: \"", words.lease, "\" is not a duration of 1s to 1h"));
  }
  flags->server.upload_bytes_max = static_cast<int64_t>(words.upload_gib * kGib);
  if (!absl::ParseDuration(words.upload_keep, &flags->server.upload_keep) ||
      flags->server.upload_keep < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--upload-keep: \"", words.upload_keep, "\" is not a duration, as 6h"));
  }
  const absl::StatusOr<LogLevel> level = ParseLogLevel(flags->log_level);
  if (!level.ok())
    return absl::InvalidArgumentError(absl::StrCat("--log-level: ", level.status().message()));
  const absl::StatusOr<LogFormat> format = ParseLogFormat(flags->log_format);
  if (!format.ok())
    return absl::InvalidArgumentError(absl::StrCat("--log-format: ", format.status().message()));
  flags->server.log.level = *level;
  flags->server.log.format = *format;
  return absl::OkStatus();
}

// Values that are not given keep those of `flags` and `words`, which are the defaults.
void DefineFlags(CLI::App& app, Flags& flags, Words& words) {
  CoordinatorServerOptions& server = flags.server;
  const auto option = [&](const std::string& name, const char* takes, auto& value,
                          const std::string& help) {
    return app.add_option("--" + name, value, help)
        ->type_name(takes)
        ->capture_default_str()
        ->envname(EnvironmentName(name));
  };
  option("listen", "HOST:PORT", server.listen,
         "Address of the gRPC services; port 0 takes any free one");
  option("http-listen", "HOST:PORT", server.http_listen,
         "Address of the status page, /metrics, /healthz and /readyz; empty: none");
  // The flag's name in earlier versions. Existing units and scripts use it.
  app.add_option("--metrics-listen", server.http_listen)
      ->envname(EnvironmentName("metrics-listen"))
      ->excludes("--http-listen")
      ->group("");
  option("data-dir", "DIR", server.data_dir,
         "Folder of the durable state; made if it is not there");
  option("import-dir", "DIR", server.import_dir,
         "Folder of checkpoints and Hugging Face models, one folder each, that jobs may begin with "
         "(init.folder); empty: none");
  option("upload-gib", "N", words.upload_gib,
         "GiB of --data-dir for folders that users send (submit --from DIR), at most; 0: none are "
         "taken")
      ->check(Number(0, 1e9));
  option("upload-keep", "TIME", words.upload_keep,
         "How long such a folder stays after its last use, when no job needs it");
  option("ready-file", "FILE", flags.ready_file,
         "Written once the coordinator serves: grpc=HOST:PORT and http=HOST:PORT");
  option("lease", "TIME", words.lease, "A pool that is silent for so long is lost; 1s to 1h");
  option("log-level", "LEVEL", flags.log_level, "debug, info, warning or error");
  option("log-format", "FORM", flags.log_format, "auto (text on a terminal), text or json");
  option("tls-ca", "FILE", flags.tls_files.ca,
         "PEM file of the authorities that clients' certificates come from; empty: no TLS");
  option("tls-certificate", "FILE", flags.tls_files.certificate,
         "PEM file of the coordinator's certificate, for the host name that clients dial");
  option("tls-key", "FILE", flags.tls_files.key, "PEM file of its private key");
  option("tokens", "FILE", server.tokens_file,
         "File of users' tokens, a line each: NAME ROLE sha256:HEX, with ROLE viewer, submitter or "
         "admin and HEX the SHA-256 of the token. Then people need a token, with RPC and HTTP, and "
         "only pools need certificates. Read again while it runs; with TLS only");
  option("audit-log", "FILE", server.audit_log,
         "File that gets a JSON line for each call that changes something: who, what, result");
  option(
      "calls-per-second", "N", server.calls_per_second,
      "Calls a second of each caller, with TLS; for a moment twice as many. Bulk transfers do not "
      "count. 0: no limit")
      ->check(Number(0, 1e9));
  app.add_flag("--insecure,--allow-plaintext-beyond-localhost", server.insecure,
               "Serve other machines without TLS, or HTTP without tokens: for networks that are "
               "private by other means")
      ->envname(EnvironmentName("insecure"));
  app.add_flag("--print-config", flags.print_config, "Show what is in force and end");
  app.add_flag("--check", flags.check,
               "Verify the data folder while no coordinator runs: every digest, every round since "
               "the last snapshots; change nothing. Exit code 1: something is wrong");
  app.add_flag("--adopt", flags.adopt,
               "Before serving, make jobs known to the database whose folders it does not know, "
               "from their manifests");
}

}  // namespace

std::optional<Flags> ParseFlags(int argc, char** argv, int* exit_code) {
  Flags flags;
  CoordinatorServerOptions& server = flags.server;
  server.listen = "127.0.0.1:7070";
  server.http_listen = "127.0.0.1:7071";
  server.data_dir = "./longhaul-data";
  Words words;
  CLI::App app(
      "Longhaul's coordinator: owns jobs, membership, the schedule, the outer optimizer and the "
      "durable state.",
      server.log.program);
  SetHelpPage(app);
  DefineFlags(app, flags, words);
  const std::vector<std::string> args(argv + 1, argv + argc);
  try {
    ParseCommandLine(app, args);
    // CLI11 reports by exceptions, also for --help.
  } catch (const CLI::ParseError& error) {
    *exit_code = error.get_exit_code() == 0 ? app.exit(error) : kExitBadArguments;
    if (*exit_code != 0) {
      const UsageFault fault = ExplainUsage(app, error, args);
      SayFlagError(server.log.program, argc, argv, fault.message, fault.hint);
    }
    return std::nullopt;
  }
  if (const absl::Status converted = Convert(words, &flags); !converted.ok()) {
    SayFlagError(server.log.program, argc, argv, converted.message(), "");
    *exit_code = kExitBadArguments;
    return std::nullopt;
  }
  flags.misspelt = MisspeltVariables(app, environ);
  return flags;
}

std::string ConfigText(const Flags& flags) {
  const CoordinatorServerOptions& server = flags.server;
  return absl::StrCat(
      "listen: ", server.listen, "\nhttp-listen: ", server.http_listen,
      "\ndata-dir: ", server.data_dir, "\nimport-dir: ", server.import_dir,
      "\nupload-gib: ", static_cast<double>(server.upload_bytes_max) / kGib,
      "\nupload-keep: ", absl::FormatDuration(server.upload_keep),
      "\nready-file: ", flags.ready_file, "\nlease: ", absl::FormatDuration(server.core.lease),
      "\nlog-level: ", flags.log_level, "\nlog-format: ", flags.log_format,
      "\ntls-ca: ", flags.tls_files.ca, "\ntls-certificate: ", flags.tls_files.certificate,
      "\ntls-key: ", flags.tls_files.key, "\ntokens: ", server.tokens_file,
      "\naudit-log: ", server.audit_log, "\ncalls-per-second: ", server.calls_per_second,
      "\ninsecure: ", server.insecure ? "true" : "false", "\n");
}

}  // namespace longhaul::coordinator
