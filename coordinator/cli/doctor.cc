// longhaul doctor: one check after another, each with what was found and what to do about it.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/bytes_text.h"
#include "common/base/clock.h"
#include "common/base/counted.h"
#include "common/device/cuda_module.h"
#include "common/rpc/certificate_dates.h"
#include "common/rpc/tls_probe.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/connection.h"
#include "coordinator/cli/link_measure.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"

namespace longhaul::cli {
namespace {

constexpr absl::Duration kClockLimit = absl::Seconds(2);
constexpr absl::Duration kRenewBefore = absl::Hours(24 * 30);
constexpr int64_t kDiskLow = int64_t{10} << 30;

enum class Verdict { kOk, kWarning, kProblem };

struct Finding {
  std::string check;
  Verdict verdict = Verdict::kOk;
  std::string found, advice;
};

class Examination {
 public:
  Examination(const Arguments& arguments, const Environment& environment)
      : arguments_(arguments), environment_(environment) {}

  Outcome Run() {
    if (!arguments_.job.empty()) {
      if (CheckConnection()) CheckJob();
      return Report();
    }
    Ok("program", absl::StrCat("longhaul ", LONGHAUL_VERSION, ", API longhaul.v1"));
    CheckMachine();
    CheckDisk();
    if (CheckConnection()) CheckCoordinator();
    return Report();
  }

 private:
  void Ok(std::string check, std::string found) {
    findings_.push_back({std::move(check), Verdict::kOk, std::move(found), ""});
  }
  void Warn(std::string check, std::string found, std::string advice) {
    findings_.push_back({std::move(check), Verdict::kWarning, std::move(found), std::move(advice)});
  }
  void Problem(std::string check, std::string found, std::string advice, ExitCode exit) {
    findings_.push_back({std::move(check), Verdict::kProblem, std::move(found), std::move(advice)});
    if (exit_ == ExitCode::kOk) exit_ = exit;
  }

  void CheckMachine() {
    std::string memory;
    std::ifstream file("/proc/meminfo");
    std::string key;
    int64_t kilobytes = 0;
    if (file >> key >> kilobytes)
      memory = absl::StrCat(", ", BytesText(kilobytes << 10), " of memory");
    Ok("machine", absl::StrCat(std::thread::hardware_concurrency(), " CPUs", memory));
    const absl::StatusOr<int> devices = CudaDeviceCount();
    Ok("devices", devices.ok() ? Counted(*devices, "CUDA device")
                               : "no CUDA device: pools of this machine train on its CPU");
  }

  void CheckDisk() {
    std::error_code error;
    const std::filesystem::space_info space = std::filesystem::space(arguments_.data_dir, error);
    if (error) {
      Problem("disk", absl::StrCat(arguments_.data_dir, ": ", error.message()),
              "--data-dir must name an existing folder", ExitCode::kUsage);
      return;
    }
    JudgeDisk("disk", arguments_.data_dir, static_cast<int64_t>(space.available));
  }

  void JudgeDisk(const std::string& check, const std::string& where, int64_t free_bytes) {
    const std::string found = absl::StrCat(BytesText(free_bytes), " free at ", where);
    if (free_bytes >= kDiskLow) return Ok(check, found);
    Warn(check, found,
         absl::StrCat("checkpoints and logs of jobs need space: keep ", BytesText(kDiskLow),
                      " free"));
  }

  // False: there is nothing to connect to.
  bool CheckConnection() {
    absl::StatusOr<Connection> connection = ConnectionOf(arguments_, environment_);
    if (!connection.ok()) {
      Problem("configuration", std::string(connection.status().message()),
              "`longhaul contexts --help` shows what the file looks like", ExitCode::kUsage);
      return false;
    }
    connection_ = *std::move(connection);
    Ok("configuration",
       absl::StrCat("coordinator ", connection_.server, ", from ", connection_.server_from));
    if (connection_.tls.empty()) {
      Ok("certificates", "none: the connection is plaintext");
      return true;
    }
    CheckCertificate("--tls-ca", connection_.tls.ca);
    CheckCertificate("--tls-certificate", connection_.tls.certificate);
    absl::StatusOr<ClientAccess> access = AccessOf(connection_);
    if (access.ok()) {
      access_ = *std::move(access);
      return true;
    }
    const bool readable = absl::IsFailedPrecondition(access.status());
    Problem("certificates", std::string(access.status().message()),
            readable ? "run that command: only the owner may read a private key or token"
                     : "name a token and --tls-ca, or all three files, PEM each, the key without a "
                       "password",
            ExitCode::kUsage);
    return false;
  }

  void CheckCertificate(const std::string& flag, const std::string& path) {
    if (path.empty()) return;  // LoadTlsIfGiven says which is missing.
    const absl::StatusOr<CertificateDates> dates = DatesOfCertificate(path);
    if (!dates.ok()) return;  // Likewise.
    const absl::Time now = environment_.clock.Now();
    const std::string found =
        absl::StrCat(flag, " ", path, ": ", Printable(dates->subject), ", valid until ",
                     absl::FormatTime("%Y-%m-%d %H:%MZ", dates->until, absl::UTCTimeZone()));
    if (now < dates->from) {
      Problem("certificates", absl::StrCat(found, ", not yet valid"),
              "is this machine's clock right?", ExitCode::kConnection);
    } else if (now >= dates->until) {
      Problem("certificates", absl::StrCat(found, ", which has passed"),
              "renew it; running programs read the new files within a minute",
              ExitCode::kConnection);
    } else if (dates->until - now < kRenewBefore) {
      Warn("certificates", absl::StrCat(found, ", in ", DurationText(dates->until - now)),
           "renew it soon");
    } else {
      Ok("certificates", found);
    }
  }

  void CheckCoordinator() {
    const absl::Duration timeout =
        arguments_.timeout_given ? arguments_.timeout : absl::Seconds(10);
    if (const absl::Status able = environment_.before_client(); !able.ok())
      return Unreachable(able, timeout);
    Client client(connection_.server, timeout, access_);
    const absl::StatusOr<LinkFacts> link = MeasureLink(client, environment_.clock);
    if (absl::IsUnimplemented(link.status())) {
      Warn("coordinator", "answers, but is older than this program", "update it");
    } else if (!link.ok()) {
      return Unreachable(link.status(), timeout);
    } else {
      Judge(*link);
    }
    CheckPools(client, link.ok() ? link->server.version() : "");
  }

  // Of the job that is named alone.
  void CheckJob() {
    if (const absl::Status able = environment_.before_client(); !able.ok())
      return Unreachable(able, arguments_.timeout);
    Client client(connection_.server, arguments_.timeout, access_);
    const absl::StatusOr<v1::Job> found = client.GetJob(arguments_.job);
    if (!found.ok()) {
      const CliError error = ErrorOfCall(found.status(), connection_.server);
      return Problem("job", error.message, error.hint, error.exit);
    }
    const v1::Job& job = *found;
    const std::string state = absl::StrCat(StateName(job.state()), ", step ", job.inner_step(), "/",
                                           job.spec().train().steps());
    if (job.state() == v1::FAILED || job.state() == v1::QUARANTINED) {
      Problem("state", absl::StrCat(state, ": ", job.error().message()), job.error().hint(),
              ExitCode::kFailed);
    } else if (!job.pause().reason().empty()) {
      Ok("state", absl::StrCat(state, ", by ", job.pause().by(), ": ", job.pause().reason()));
    } else {
      Ok("state",
         absl::StrCat(state, job.waiting_for().empty() ? "" : ", waiting for ", job.waiting_for()));
    }
    if (!job.has_health()) Ok("health", "not known: no pool has trained");
    if (job.health().level() == v1::JobHealth::HEALTHY) Ok("health", "nothing was found");
    for (const v1::HealthFinding& finding : job.health().findings()) {
      const std::string words = FindingText(finding);
      if (finding.level() == v1::JobHealth::FAILING) {
        Problem("health", words, finding.hint(), ExitCode::kFailed);
      } else {
        Warn("health", words, finding.hint());
      }
    }
    // Before the job has a health.
    for (const v1::SetAside& pool : job.set_aside()) {
      if (job.has_health()) break;
      Warn("pools", absl::StrCat(pool.pool(), " is set aside: ", pool.error().message()),
           pool.error().hint());
    }
    for (const std::string& warning : job.warnings()) Warn("warning", warning, "");
  }

  void Unreachable(const absl::Status& status, absl::Duration timeout) {
    const CliError error = ErrorOfCall(status, connection_.server);
    std::string advice = error.hint;
    const absl::StatusOr<bool> speaks_tls = SpeaksTls(connection_.server, SteadyTime() + timeout);
    if (speaks_tls.ok() && *speaks_tls && access_.tls == nullptr) {
      advice = "the coordinator requires TLS: give --tls-ca, --tls-certificate and --tls-key";
    } else if (speaks_tls.ok() && !*speaks_tls && access_.tls != nullptr) {
      advice =
          "the coordinator uses plaintext: omit the TLS files, or start the coordinator with TLS";
    } else if (absl::IsUnavailable(status) && speaks_tls.ok() && access_.tls != nullptr &&
               connection_.tls.certificate.empty()) {
      advice =
          "a server answers with TLS, and may require a certificate in addition to the token: ask "
          "its operator for one (longhaul certs issue user NAME), and give --tls-certificate and "
          "--tls-key";
    } else if (absl::IsUnavailable(status) && speaks_tls.ok() && access_.tls != nullptr) {
      advice =
          "a server answers with TLS: are both certificates signed by the authority of --tls-ca, "
          "and is the coordinator's certificate for this host name?";
    }
    Problem("coordinator", Printable(status.message()), std::move(advice), ExitCode::kConnection);
  }

  void Judge(const LinkFacts& link) {
    const v1::DescribeResponse& server = link.server;
    if (!server.not_ready().empty()) {
      Problem("coordinator", absl::StrCat("not ready: ", Printable(server.not_ready())),
              "see its log", ExitCode::kFailed);
    } else if (server.version() != LONGHAUL_VERSION) {
      Warn("coordinator", absl::StrCat("ready, version ", Printable(server.version())),
           absl::StrCat("this program is ", LONGHAUL_VERSION,
                        ": they work together, but only one of them has the newer features"));
    } else {
      Ok("coordinator", absl::StrCat("ready, version ", Printable(server.version())));
    }
    const double ahead = absl::ToDoubleSeconds(link.clock_ahead);
    const std::string clock = absl::StrFormat("the coordinator's is %.3f s %s this one",
                                              std::abs(ahead), ahead < 0 ? "behind" : "ahead of");
    if (absl::AbsDuration(link.clock_ahead) <= kClockLimit) {
      Ok("clock", clock);
    } else {
      Warn("clock", clock,
           "synchronize both with NTP: certificate dates and log times depend on them");
    }
    Ok("round trip", absl::StrFormat("%.1f ms", absl::ToDoubleMilliseconds(link.round_trip)));
    Ok("bandwidth",
       absl::StrFormat("one connection: %.0f Mbit/s up, %.0f Mbit/s down, at least",
                       link.bytes_per_second_up * 8e-6, link.bytes_per_second_down * 8e-6));
    if (server.disk_free_bytes() >= 0)
      JudgeDisk("coordinator's disk", "its data folder", server.disk_free_bytes());
  }

  void CheckPools(Client& client, const std::string& version) {
    const absl::StatusOr<v1::ListPoolsResponse> pools = client.ListPools();
    if (!pools.ok()) {
      const CliError error = ErrorOfCall(pools.status(), connection_.server);
      return Problem("pools", error.message, error.hint, error.exit);
    }
    if (pools->pools_size() == 0) {
      return Warn("pools", "none",
                  absl::StrCat("start one: longhaul-worker --coordinator ", connection_.server,
                               " --pool NAME"));
    }
    int healthy = 0;
    for (const v1::Pool& pool : pools->pools()) {
      const std::string name = Printable(pool.name());
      if (pool.state() == v1::LOST) {
        Warn("pools", absl::StrCat(name, " is lost"), "check its machine and its log");
      } else if (pool.state() == v1::FORMING) {
        Warn("pools", absl::StrCat(name, " waits for ", Printable(pool.waiting_for())),
             "start its other nodes");
      } else if (pool.set_aside_size() > 0) {
        const v1::JobError& error = pool.set_aside(0).error();
        Warn("pools",
             absl::StrCat(name, " is set aside for ", Printable(pool.set_aside(0).job()), ": ",
                          Printable(error.message())),
             Printable(error.hint()));
      } else if (!version.empty() && pool.version() != version) {
        Warn("pools",
             absl::StrCat(name, " has version ", Printable(pool.version()), ", the coordinator ",
                          Printable(version)),
             "update the older one");
      } else {
        ++healthy;
      }
    }
    if (healthy > 0)
      Ok("pools", absl::StrCat(healthy, " of ", pools->pools_size(), " without a fault"));
  }

  Outcome Report() {
    static constexpr const char* kWords[] = {"ok", "warning", "problem"};
    Json json = Json::array();
    std::string text;
    int problems = 0;
    for (const Finding& finding : findings_) {
      const char* word = kWords[static_cast<int>(finding.verdict)];
      problems += finding.verdict == Verdict::kProblem ? 1 : 0;
      json.push_back({{"check", finding.check},
                      {"verdict", word},
                      {"found", finding.found},
                      {"advice", finding.advice}});
      absl::StrAppend(&text, absl::StrFormat("%-8s %-19s ", word, finding.check),
                      Printable(finding.found), "\n");
      if (!finding.advice.empty())
        absl::StrAppend(&text, std::string(29, ' '), "-> ", Printable(finding.advice), "\n");
    }
    Outcome outcome(Json{{"checks", std::move(json)}}, std::move(text));
    if (problems > 0) {
      outcome.error = CliError{.exit = exit_,
                               .code = "UNHEALTHY",
                               .message = absl::StrCat(Counted(problems, "problem"), " found"),
                               .hint = "see the lines with an arrow"};
    }
    return outcome;
  }

  const Arguments& arguments_;
  const Environment& environment_;
  std::vector<Finding> findings_;
  Connection connection_;
  ClientAccess access_;
  ExitCode exit_ = ExitCode::kOk;  // Of the first problem.
};

}  // namespace

Outcome Doctor(const Arguments& arguments, const Environment& environment) {
  return Examination(arguments, environment).Run();
}

}  // namespace longhaul::cli
