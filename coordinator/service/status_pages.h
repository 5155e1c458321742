// The coordinator's pages on its HTTP port, read only: the status page for people, and its JSON
// data (status.proto), made from the same reports as the answers over gRPC.
//   /               the page, with /status.css and /status.js. It loads nothing from other servers.
//                   These three have no data of jobs and need no token. If the JSON needs one, the
//                   page asks for it.
//   /api/v1/overview
//   /api/v1/job?name=NAME
//   /api/v1/curves?job=NAME (curves.proto)
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/pages.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/pool_service.h"
#include "coordinator/service/service_context.h"
#include "longhaul/v1/status.pb.h"

namespace longhaul::coordinator {

struct StatusSource {
  ServiceContext service;
  const PoolService* pools = nullptr;
  std::function<absl::Status()> ready;
  absl::Time started;
};

// What `source` points to outlives the server that gets the pages. An answer waits at most 2 s for
// the owner thread, and as long for the database; then it is 503.
void AddStatusPages(Pages& pages, const StatusSource& source);

// `jobs`: the newest ones, newest first. Owner thread.
v1::Overview MakeOverview(const StatusSource& source, std::vector<ListedJob> jobs);
struct JobPage {
  v1::JobDetail detail;
  // False: only the database has the job's evaluations, since it has ended or cannot be used.
  bool has_evaluations = false;
};
// Reads no evaluations from the database, since they are many. NOT_FOUND: no job has this name or
// id.
absl::StatusOr<JobPage> MakeJobPage(const StatusSource& source, const std::string& job);

}  // namespace longhaul::coordinator
