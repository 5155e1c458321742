// What the coordinator shows of itself on its HTTP port, read only: the status page for people, and the JSON
// behind it (status.proto), made of the reports that gRPC gives.
//   /               the page; /status.css and /status.js beside it. Nothing comes from elsewhere. These have
//                   nothing of jobs, and are open; where the JSON needs a token the page asks for one.
//   /api/v1/overview
//   /api/v1/job?name=NAME
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/pages.h"
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

// What `source` points to outlives the server that gets the pages. An answer waits at most 2 s for the
// owner thread, then it is 503.
void AddStatusPages(Pages& pages, const StatusSource& source);

// Owner thread.
absl::StatusOr<v1::Overview> MakeOverview(const StatusSource& source);
// NOT_FOUND: no job has this name or id.
absl::StatusOr<v1::JobDetail> MakeJobDetail(const StatusSource& source, const std::string& job);

}  // namespace longhaul::coordinator
