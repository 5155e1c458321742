// The server's answers as the CLI shows them.
//   input: u8 which | the message
#include "coordinator/cli/views.h"
#include "coordinator/cli/yaml_writer.h"
#include "google/protobuf/util/time_util.h"
#include "tests/fuzz/coordinator/cli/plain_text.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace longhaul::fuzz::answers_fuzz {
namespace {

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(24 * 365 * 55);

void Show(const Json& json, const std::string& table) {
  CheckPlainText(table);
  LH_CHECK(!json.dump(2, ' ', false, Json::error_handler_t::replace).empty(), "it has JSON");
  LH_CHECK(!cli::WriteYaml(json).empty(), "it has YAML");
}

v1::Job AJob() {
  v1::Job job;
  job.set_id("20250101-000000-00abcd");
  job.mutable_spec()->set_name("a");
  job.mutable_spec()->mutable_train()->set_steps(100);
  job.set_state(v1::RUNNING);
  *job.mutable_created_at() = google::protobuf::util::TimeUtil::SecondsToTimestamp(1'700'000'000);
  return job;
}

}  // namespace

std::vector<Seed> Seeds() {
  v1::ListJobsResponse jobs;
  *jobs.add_jobs() = AJob();
  v1::ListPoolsResponse pools;
  pools.add_pools()->set_name("oslo");
  v1::ListCheckpointsResponse checkpoints;
  checkpoints.add_checkpoints()->set_step(30);
  const auto seed = [](int which, const google::protobuf::MessageLite& message) {
    return FuzzWriter().Byte(which).Bytes(message.SerializeAsString()).Take();
  };
  return {{"job", seed(0, AJob())},
          {"jobs", seed(1, jobs)},
          {"pools", seed(2, pools)},
          {"checkpoints", seed(3, checkpoints)}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const uint8_t which = input.Byte() % 4;
  const std::string bytes(input.Rest());
  if (v1::Job job; which == 0 && job.ParseFromString(bytes)) {
    Show(cli::JobJson(job), cli::JobTable(job, kNow));
  }
  if (v1::ListJobsResponse jobs; which == 1 && jobs.ParseFromString(bytes)) {
    Show(cli::JobsJson(jobs), cli::JobsTable(jobs, kNow));
  }
  if (v1::ListPoolsResponse pools; which == 2 && pools.ParseFromString(bytes)) {
    Show(cli::PoolsJson(pools), cli::PoolsTable(pools));
  }
  if (v1::ListCheckpointsResponse found; which == 3 && found.ParseFromString(bytes)) {
    Show(cli::CheckpointsJson(found), cli::CheckpointsTable(found));
  }
  return 0;
}

}  // namespace longhaul::fuzz::answers_fuzz
