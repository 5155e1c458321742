// longhaul logs: lines of pools, through the coordinator.
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {
namespace {

constexpr absl::Duration kReconnectAfter = absl::Seconds(1);

// What is to be shown; NOT_FOUND if nothing has that name.
absl::StatusOr<v1::FollowLogsRequest> RequestOf(const Arguments& arguments, Client& client) {
  v1::FollowLogsRequest request;
  request.set_tail(arguments.tail);
  request.set_follow(arguments.follow);
  const absl::StatusOr<v1::Job> job = client.GetJob(arguments.job);
  if (job.ok()) {
    request.set_job_id(job->id());
    return request;
  }
  if (!absl::IsNotFound(job.status())) return job.status();
  const absl::StatusOr<v1::ListPoolsResponse> pools = client.ListPools();
  if (!pools.ok()) return pools.status();
  for (const v1::Pool& pool : pools->pools()) {
    if (pool.name() != arguments.job) continue;
    request.set_pool(pool.name());
    return request;
  }
  return absl::NotFoundError(absl::StrCat("no job and no pool is called \"", arguments.job, "\""));
}

// A JSON line of ours as people read it; another line as it is.
std::string ReadableLine(absl::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto text = [&](const char* name) {
    const bool there = json.is_object() && json.contains(name) && json[name].is_string();
    return there ? json[name].get<std::string>() : std::string();
  };
  if (text("time").empty() || text("level").empty() || text("message").empty())
    return Printable(line);
  std::string shown = absl::StrFormat("%s %-7s %s", Printable(text("time")),
                                      Printable(text("level")), Printable(text("message")));
  if (!text("job").empty()) absl::StrAppend(&shown, " job=", Printable(text("job")));
  for (const char* name : {"rank", "round"}) {
    if (json.contains(name) && json[name].is_number_integer())
      absl::StrAppend(&shown, " ", name, "=", json[name].get<int64_t>());
  }
  return shown;
}

// Prints lines, and keeps where it is in those of each node.
class LogPrinter {
 public:
  LogPrinter(const Arguments& arguments, const Environment& environment)
      : json_(arguments.output != OutputFormat::kTable), environment_(environment) {}

  // Whether another stream can go on where this one ended: all nodes number their lines.
  bool can_go_on() const { return numbered_; }
  // What to ask for then.
  void GoOn(v1::FollowLogsRequest* request) const {
    request->clear_positions();
    for (const auto& [node, at] : positions_) *request->add_positions() = at;
    // Lines that were shown must not come again.
    if (!numbered_) request->set_tail(0);
  }

  // False: nobody reads what is printed.
  bool Print(const v1::FollowLogsResponse& lines) {
    const std::string pool = Printable(lines.pool());
    Keep(pool, lines);
    if (lines.dropped() > 0) Dropped(pool, lines);
    for (const absl::string_view line : absl::StrSplit(lines.text(), '\n', absl::SkipEmpty())) {
      ++lines_;
      if (json_) {
        environment_.out
            << JsonLine(Outcome(
                   Json{{"pool", lines.pool()}, {"node", lines.node()}, {"line", line}}, ""))
            << "\n";
      } else {
        environment_.out << pool << " | " << ReadableLine(line) << "\n";
      }
    }
    environment_.out.flush();
    return environment_.out.good();
  }
  int64_t lines() const { return lines_; }

 private:
  void Dropped(const std::string& pool, const v1::FollowLogsResponse& lines) {
    environment_.err << pool << ": " << lines.dropped() << " older lines are no longer available"
                     << std::endl;
  }
  void Keep(const std::string& pool, const v1::FollowLogsResponse& lines) {
    // A coordinator or an agent of an earlier version.
    if (lines.ring() == 0) {
      numbered_ = false;
      return;
    }
    v1::LogPosition& at = positions_[{lines.pool(), lines.node()}];
    if (at.ring() != 0 && at.ring() != lines.ring()) {
      environment_.err << pool
                       << ": its agent was restarted; the last lines before that may be missing"
                       << std::endl;
    }
    at.set_pool(lines.pool());
    at.set_node(lines.node());
    at.set_ring(lines.ring());
    at.set_next(lines.next());
  }

  const bool json_;
  const Environment& environment_;
  int64_t lines_ = 0;
  // By pool and number of the node.
  std::map<std::pair<std::string, int>, v1::LogPosition> positions_;
  bool numbered_ = true;
};

}  // namespace

Outcome Logs(const Arguments& arguments, Client& client, const Environment& environment) {
  if (arguments.output == OutputFormat::kJson || arguments.output == OutputFormat::kYaml)
    return UsageError("logs supports -o table and -o jsonl only");
  absl::StatusOr<v1::FollowLogsRequest> request = RequestOf(arguments, client);
  if (!request.ok()) return ErrorOfCall(request.status(), client.address());
  const bool bounded = !arguments.follow || arguments.timeout_given;
  const absl::Time deadline =
      bounded ? environment.clock.Now() + arguments.timeout : absl::InfiniteFuture();
  LogPrinter printer(arguments, environment);
  absl::Time heard_at = environment.clock.Now();
  bool lost = false;
  for (;;) {
    const absl::Time begun = environment.clock.Now();
    absl::Status status = client.FollowLogs(*request, InSteadyTime(environment.clock, deadline),
                                            [&](const v1::FollowLogsResponse& lines) {
                                              if (std::exchange(lost, false))
                                                environment.err << "connected again" << std::endl;
                                              heard_at = environment.clock.Now();
                                              return printer.Print(lines);
                                            });
    if (!environment.out.good()) return Outcome::Nothing();  // Run says so.
    // That is how a wait ends that was given a time.
    const bool over = absl::IsDeadlineExceeded(status) && arguments.follow;
    if (status.ok() || over) break;
    // gRPC cancels a call that a server that goes down has not begun.
    const bool gone = absl::IsUnavailable(status) || absl::IsCancelled(status);
    // Nothing comes while no pool writes lines.
    if (WasOpen(environment.clock.Now() - begun)) heard_at = environment.clock.Now();
    const bool again = arguments.follow && gone && environment.clock.Now() - heard_at < kSilentMax;
    if (!again) return ErrorOfCall(status, client.address());
    if (!std::exchange(lost, true)) {
      environment.err << "connection lost (" << Printable(status.message()) << "); "
                      << (printer.can_go_on() ? "resuming when it is back"
                                              : "lines may be missing until it is back")
                      << std::endl;
    }
    printer.GoOn(&*request);
    environment.clock.Sleep(kReconnectAfter);
  }
  if (printer.lines() == 0 && !arguments.follow)
    environment.err << "no connected pool has log lines of it" << std::endl;
  return Outcome::Nothing();
}

}  // namespace longhaul::cli
