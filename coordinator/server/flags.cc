#include "coordinator/server/flags.h"

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/command_line/config_file.h"
#include "common/command_line/help_page.h"
#include "common/command_line/value_checks.h"

namespace longhaul::coordinator {
namespace {

constexpr double kGib = int64_t{1} << 30;

// Values of the command line as text, before they are checked.
struct Words {
  std::string lease = absl::FormatDuration(CoordinatorServerOptions().core.lease);
  double memory_gib = 0;
  double upload_gib = static_cast<double>(CoordinatorServerOptions().upload_bytes_max) / kGib;
  std::string ended_job_keep = absl::FormatDuration(CoordinatorServerOptions().ended_job_keep);
  std::string upload_keep = absl::FormatDuration(CoordinatorServerOptions().upload_keep);
  std::string log_level = "info", log_format = "auto";
};

void Convert(const Words& words, Flags& flags) {
  CoordinatorServerOptions& server = flags.server;
  server.core.lease = CheckedTime(words.lease);
  server.core.memory = static_cast<int64_t>(words.memory_gib * kGib);
  server.upload_bytes_max = static_cast<int64_t>(words.upload_gib * kGib);
  server.upload_keep = CheckedTime(words.upload_keep);
  server.ended_job_keep = CheckedTime(words.ended_job_keep);
  server.log.level = *ParseLogLevel(words.log_level);
  server.log.format = *ParseLogFormat(words.log_format);
}

// Values that are not given keep those of `flags` and `words`, which are the defaults.
void DefineFlags(CLI::App& app, ConfigFile& config, Flags& flags, Words& words) {
  CoordinatorServerOptions& server = flags.server;
  config.Setting("listen", "HOST:PORT", server.listen,
                 "Address of the gRPC services; port 0 chooses a free port");
  config.Setting("http-listen", "HOST:PORT", server.http_listen,
                 "Address of the status page, /metrics, /healthz and /readyz; empty: none");
  // The flag's name in earlier versions. Existing units and scripts use it.
  app.add_option("--metrics-listen", server.http_listen)
      ->envname(VariableOf("metrics-listen"))
      ->excludes("--http-listen")
      ->group("");
  config.Setting("data-dir", "DIR", server.data_dir,
                 "Folder of the durable state; created if it does not exist");
  config.Setting("import-dir", "DIR", server.import_dir,
                 "Folder of checkpoints and Hugging Face models, one folder each, that jobs can "
                 "start from (init.folder); empty: none");
  config
      .Setting("memory-gib", "N", words.memory_gib,
               "Memory for the states of jobs, in GiB; a job that does not fit alongside the "
               "running ones waits. 0: 90 % of the memory of the machine or container")
      ->check(Number(0, 1e9));
  config
      .Setting("upload-gib", "N", words.upload_gib,
               "Limit for folders that users upload (submit --from DIR), in GiB of --data-dir; 0: "
               "uploads are rejected")
      ->check(Number(0, 1e9));
  config
      .Setting("upload-keep", "TIME", words.upload_keep,
               "How long an uploaded folder is kept after its last use or the start of the "
               "coordinator, if no job needs it")
      ->check(TimeSpan(absl::ZeroDuration(), absl::InfiniteDuration()));
  config
      .Setting(
          "ended-job-keep", "TIME", words.ended_job_keep,
          "Time of coordinator operation, for example 720h, after which an ended job and its "
          "checkpoints are deleted; not while another job will start from one of them. inf: never")
      ->check(TimeSpan(absl::Seconds(1), absl::InfiniteDuration()));
  config.Setting("ready-file", "FILE", flags.ready_file,
                 "File that is written when the coordinator is serving (grpc=HOST:PORT and "
                 "http=HOST:PORT) and removed when it is asked to stop");
  config
      .Setting("lease", "TIME", words.lease,
               "A pool that sends nothing for this long is lost; 1s to 1h")
      ->check(TimeSpan(absl::Seconds(1), absl::Hours(1)));
  config.Setting("log-level", "LEVEL", words.log_level, "debug, info, warning or error")
      ->check(OneOf({"debug", "info", "warning", "error"}));
  config.Setting("log-format", "FORM", words.log_format, "auto (text on a terminal), text or json")
      ->check(OneOf({"auto", "text", "json"}));
  config.Setting("tls-ca", "FILE", flags.tls_files.ca,
                 "PEM file of the authorities (CA) that sign clients' certificates; empty: no TLS");
  config.Setting(
      "tls-certificate", "FILE", flags.tls_files.certificate,
      "PEM file of the coordinator's certificate, for the host name that clients connect to");
  config.Setting("tls-key", "FILE", flags.tls_files.key, "PEM file of its private key");
  config.Setting("tls-crl", "FILE", flags.tls_files.crl,
                 "PEM file of the authorities' revocation lists (longhaul certs revoke): pools and "
                 "users whose certificate is in them are shut out, also while they are connected. "
                 "Changes are read while the coordinator runs");
  config.Switch("http-tls", server.http_tls,
                "Serve --http-listen with TLS (https) and the same certificate");
  config.Setting(
      "tokens", "FILE", server.tokens_file,
      "File of user tokens, one per line: NAME ROLE sha256:HEX, where ROLE is viewer, submitter or "
      "admin and HEX is the SHA-256 of the token. Users then need a token for RPC and HTTP in "
      "addition to their certificate. Changes are read while the coordinator runs. Needs TLS");
  config.Switch(
      "allow-token-only", server.allow_token_only,
      "With --tokens: users need only a token, no certificate. Anyone who reaches --listen can "
      "then complete a TLS connection and load the coordinator; use it only in trusted networks");
  config.Setting(
      "audit-log", "FILE", server.audit_log,
      "Audit log: one JSON line (who, what, result) for each call that changes something");
  config
      .Setting("calls-per-second", "N", server.calls_per_second,
               "Limit of calls per second for each caller, with TLS; bursts may reach twice as "
               "many. Bulk transfers do not count. 0: no limit")
      ->check(Number(0, 1e9));
  config.Switch("insecure,--allow-plaintext-beyond-localhost", server.insecure,
                "Allow other machines to connect without TLS, or to HTTP without --tokens or "
                "--http-tls; only for private networks");
  app.add_flag("--check", flags.check,
               "Verify every digest and every round since the last snapshots of the data folder, "
               "without changing it, while no coordinator runs. Exit code 1: a fault was found");
  app.add_flag(
      "--adopt", flags.adopt,
      "Before serving, add jobs whose folders the database does not list, from their manifests");
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
  ConfigFile config(app);
  DefineFlags(app, config, flags, words);
  if (const std::optional<int> exit = config.Parse(argc, argv, flags.misspelt)) {
    *exit_code = *exit;
    return std::nullopt;
  }
  Convert(words, flags);
  return flags;
}

}  // namespace longhaul::coordinator
