// A job as it comes over the wire: no YAML before it, so every number is whatever a client sent.
//   input: SubmitJobRequest
#include "common/rpc/status_conversion.h"
#include "coordinator/service/submission.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace longhaul::fuzz::submission_fuzz {
namespace {

constexpr int64_t kMemory = int64_t{64} << 30;

v1::SubmitJobRequest Request() {
  v1::SubmitJobRequest request;
  request.set_idempotency_token("once");
  v1::JobSpec& spec = *request.mutable_spec();
  spec.set_name("a");
  spec.mutable_train()->set_steps(100);
  spec.mutable_train()->set_batch(4);
  return request;
}

}  // namespace

std::vector<Seed> Seeds() {
  v1::SubmitJobRequest transformer = Request(), synthetic = Request();
  v1::TransformerSpec& shape = *transformer.mutable_spec()->mutable_model()->mutable_transformer();
  shape.set_layers(4);
  shape.set_dim(96);
  shape.set_heads(4);
  shape.set_ff_dim(256);
  shape.set_context(128);
  transformer.mutable_spec()->mutable_data()->mutable_text()->set_path("text.txt");
  transformer.mutable_spec()->mutable_sync()->mutable_fragments()->set_layers(2);
  synthetic.mutable_spec()->mutable_model()->mutable_synthetic()->set_units(3);
  synthetic.mutable_spec()->mutable_model()->mutable_synthetic()->set_elements(300);
  synthetic.mutable_spec()->mutable_sync()->mutable_fragments()->set_balanced(2);
  return {{"transformer", transformer.SerializeAsString()},
          {"synthetic", synthetic.SerializeAsString()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  v1::SubmitJobRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  const absl::StatusOr<ResolvedJob> job = coordinator::ResolveSubmission(request, kMemory);
  CheckDocumented(job.status(),
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented});
  (void)ToGrpcStatus(job.status());
  if (!job.ok()) return 0;
  *request.mutable_spec() = job->spec;
  const absl::StatusOr<ResolvedJob> again = coordinator::ResolveSubmission(request, kMemory);
  LH_CHECK(again.ok() && again->spec.SerializeAsString() == job->spec.SerializeAsString(),
           "a resolved spec stays as it is");
  return 0;
}

}  // namespace longhaul::fuzz::submission_fuzz
