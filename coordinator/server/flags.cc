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
                 "Address of the gRPC services; port 0 takes any free one");
  config.Setting("http-listen", "HOST:PORT", server.http_listen,
                 "Address of the status page, /metrics, /healthz and /readyz; empty: none");
  // The flag's name in earlier versions. Existing units and scripts use it.
  app.add_option("--metrics-listen", server.http_listen)
      ->envname(VariableOf("metrics-listen"))
      ->excludes("--http-listen")
      ->group("");
  config.Setting("data-dir", "DIR", server.data_dir,
                 "Folder of the durable state; made if it is not there");
  config.Setting(
      "import-dir", "DIR", server.import_dir,
      "Folder of checkpoints and Hugging Face models, one folder each, that jobs may begin with "
      "(init.folder); empty: none");
  config
      .Setting("memory-gib", "N", words.memory_gib,
               "GiB of memory that the states of jobs may take; a job that does not fit beside "
               "those that run waits. 0: nine tenths of what the machine or the container has")
      ->check(Number(0, 1e9));
  config
      .Setting(
          "upload-gib", "N", words.upload_gib,
          "GiB of --data-dir for folders that users send (submit --from DIR), at most; 0: none are "
          "taken")
      ->check(Number(0, 1e9));
  config
      .Setting("upload-keep", "TIME", words.upload_keep,
               "How long such a folder stays after its last use, or the coordinator's start, when "
               "no job needs it")
      ->check(TimeSpan(absl::ZeroDuration(), absl::InfiniteDuration()));
  config
      .Setting("ended-job-keep", "TIME", words.ended_job_keep,
               "A job is deleted, with its checkpoints, when the coordinator has run for so long "
               "since its end, as 720h; not while another job will begin with one of them. inf: "
               "when a user deletes it")
      ->check(TimeSpan(absl::Seconds(1), absl::InfiniteDuration()));
  config.Setting("ready-file", "FILE", flags.ready_file,
                 "Written once the coordinator serves: grpc=HOST:PORT and http=HOST:PORT; removed "
                 "when it is asked to stop");
  config
      .Setting("lease", "TIME", words.lease, "A pool that is silent for so long is lost; 1s to 1h")
      ->check(TimeSpan(absl::Seconds(1), absl::Hours(1)));
  config.Setting("log-level", "LEVEL", words.log_level, "debug, info, warning or error")
      ->check(OneOf({"debug", "info", "warning", "error"}));
  config.Setting("log-format", "FORM", words.log_format, "auto (text on a terminal), text or json")
      ->check(OneOf({"auto", "text", "json"}));
  config.Setting("tls-ca", "FILE", flags.tls_files.ca,
                 "PEM file of the authorities that clients' certificates come from; empty: no TLS");
  config.Setting("tls-certificate", "FILE", flags.tls_files.certificate,
                 "PEM file of the coordinator's certificate, for the host name that clients dial");
  config.Setting("tls-key", "FILE", flags.tls_files.key, "PEM file of its private key");
  config.Switch("http-tls", server.http_tls,
                "Serve --http-listen with TLS (https), too, with the same certificate");
  config.Setting(
      "tokens", "FILE", server.tokens_file,
      "File of users' tokens, a line each: NAME ROLE sha256:HEX, with ROLE viewer, submitter or "
      "admin and HEX the SHA-256 of the token. Then people need a token, with RPC and HTTP, beside "
      "their certificate. Read again while it runs; with TLS only");
  config.Switch("allow-token-only", server.allow_token_only,
                "with --tokens: people need no certificate, only a token. Then whoever reaches "
                "--listen gets beyond TLS, and can keep the coordinator busy without either; for "
                "networks in which that is no danger");
  config.Setting(
      "audit-log", "FILE", server.audit_log,
      "File that gets a JSON line for each call that changes something: who, what, result");
  config
      .Setting("calls-per-second", "N", server.calls_per_second,
               "Calls a second of each caller, with TLS; for a moment twice as many. Bulk "
               "transfers do not count. 0: no limit")
      ->check(Number(0, 1e9));
  config.Switch(
      "insecure,--allow-plaintext-beyond-localhost", server.insecure,
      "Serve other machines without TLS, or HTTP without --tokens or without --http-tls: for "
      "networks that are private by other means");
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
