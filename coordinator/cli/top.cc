// longhaul top: a table that is drawn again and again.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"

namespace longhaul::cli {
namespace {

constexpr int kTopJobs = 20;
constexpr absl::Duration kTopInterval = absl::Seconds(1);
// Switches to the terminal's second screen, without a cursor. Leaving it shows the first one again.
constexpr char kEnterScreen[] = "\x1b[?1049h\x1b[?25l";
constexpr char kLeaveScreen[] = "\x1b[?25h\x1b[?1049l";

struct Seen {
  v1::ListJobsResponse jobs;
  v1::ListPoolsResponse pools;
};

absl::Status Look(Client& client, Seen* seen) {
  absl::StatusOr<v1::ListJobsResponse> jobs = client.ListJobs(kTopJobs);
  if (!jobs.ok()) return jobs.status();
  absl::StatusOr<v1::ListPoolsResponse> pools = client.ListPools();
  if (!pools.ok()) return pools.status();
  *seen = {*std::move(jobs), *std::move(pools)};
  return absl::OkStatus();
}

std::string Tables(const Seen& seen, absl::Time now, TableWidth width) {
  return absl::StrCat(JobsTable(seen.jobs, now, width), "\n", PoolsTable(seen.pools, width));
}

// As much of the text as fits on the screen, but at least its first line.
std::string Screen(const std::string& text, const Terminal& terminal) {
  std::string screen = "\x1b[H";
  int row = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (++row > terminal.rows() - 1 && row > 1) break;
    absl::StrAppend(&screen, ClipColumns(line, terminal.columns() - 1), "\x1b[K\r\n");
  }
  return absl::StrCat(screen, "\x1b[J");
}

}  // namespace

Outcome Top(const Arguments& arguments, Client& client, const Environment& environment) {
  Seen seen;
  // A first call that fails is an error. Later failures are shown, and the call is tried again.
  if (const absl::Status status = Look(client, &seen); !status.ok())
    return ErrorOfCall(status, client.address());
  const bool live = environment.out_is_terminal && environment.terminal != nullptr &&
                    arguments.output == OutputFormat::kTable;
  const auto outcome = [&] {
    return Outcome(Json{{"jobs", JobsJson(seen.jobs)}, {"pools", PoolsJson(seen.pools)}},
                   live ? "" : Tables(seen, environment.clock.Now(), {}));
  };
  if (!live) return outcome();
  environment.out << kEnterScreen;
  absl::Status status;
  absl::Time seen_at = environment.clock.Now();
  do {
    const absl::Time now = environment.clock.Now();
    std::string head = absl::StrCat(
        client.address(), "  ", absl::FormatTime("%H:%M:%S", now, absl::LocalTimeZone()), "  ",
        seen.jobs.jobs_size(), seen.jobs.jobs_size() == 1 ? " job, " : " jobs, ",
        seen.pools.pools_size(), seen.pools.pools_size() == 1 ? " pool" : " pools", "  (q ends)\n");
    if (!status.ok()) {
      absl::StrAppend(&head, "as ", DurationText(now - seen_at),
                      " ago; no answer since: ", Printable(status.message()), "\n");
    }
    const TableWidth width{.columns = environment.terminal->columns() - 1, .lines = true};
    environment.out << Screen(absl::StrCat(head, "\n", Tables(seen, now, width)),
                              *environment.terminal)
                    << std::flush;
    if (!environment.out) break;
    if (environment.terminal->QuitWithin(kTopInterval)) break;
    status = Look(client, &seen);
    if (status.ok()) seen_at = environment.clock.Now();
  } while (true);
  environment.out << kLeaveScreen << std::flush;
  return outcome();
}

}  // namespace longhaul::cli
