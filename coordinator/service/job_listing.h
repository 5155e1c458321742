// The pages of ListJobs. A page is made on two threads in turn, some rows at a time: a thread
// beside the owner thread reads them, and the owner thread completes them with what it alone knows.
// So neither other calls nor the commits of jobs wait for a long list.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/service_context.h"
#include "grpcpp/support/server_callback.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

class JobListing : public std::enable_shared_from_this<JobListing> {
 public:
  // Fills the response with the newest `size` jobs that were submitted before the job of order
  // `before`, and ends the call. A page ends early where it would become too large for a message.
  // Does not block. Request and response live until the call has ended.
  static void Begin(const ServiceContext& service, int64_t before, int size,
                    v1::ListJobsResponse* response, grpc::ServerUnaryReactor* reactor);

 private:
  JobListing(const ServiceContext& service, int64_t before, int size,
             v1::ListJobsResponse* response, grpc::ServerUnaryReactor* reactor);
  void ReadNext();
  // Beside the owner thread.
  void Read();
  void Add();
  // Owner thread.
  void Complete();
  void End(const absl::Status& status);
  void EndWithToken();

  const ServiceContext service_;
  int64_t before_;
  const int size_;
  v1::ListJobsResponse* const response_;
  grpc::ServerUnaryReactor* const reactor_;
  size_t bytes_ = 0;
  // The rows in work: as they were read, and complete.
  int wanted_ = 0;
  std::vector<ListedJob> read_;
  std::vector<v1::Job> complete_;
};

}  // namespace longhaul::coordinator
