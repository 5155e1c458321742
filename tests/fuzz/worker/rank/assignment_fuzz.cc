// The assignment that a rank reads, from the coordinator by way of its agent.
//   input: Assignment as proto JSON
#include "google/protobuf/util/json_util.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"
#include "worker/rank/assignment.h"

namespace longhaul::fuzz::assignment_fuzz {

std::vector<Seed> Seeds() {
  const std::string job =
      R"({"job_id": "j", "ordinal": 1, "spec": {"name": "a", "train": {"steps": 15, "batch": 2}, )";
  return {{"synthetic", job + R"("model": {"synthetic": {"units": 2, "elements": "300"}}}})"},
          {"transformer", job + R"("data": {"text": {"path": "t"}}, "model": {"transformer":
{"layers": 2, "dim": 64, "heads": 2, "ff_dim": 128, "context": 32, "vocab": 256}}}})"}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  const absl::StatusOr<v1::Assignment> assignment =
      ParseAssignment({reinterpret_cast<const char*>(data), size});
  CheckDocumented(assignment.status(),
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented});
  if (!assignment.ok()) return 0;
  LH_CHECK(assignment->ordinal() >= 0 && assignment->spec().train().steps() >= 1,
           "a job that can be");
  std::string json;
  LH_CHECK(google::protobuf::util::MessageToJsonString(*assignment, &json).ok(), "it has JSON");
  const absl::StatusOr<v1::Assignment> again = ParseAssignment(json);
  LH_CHECK(again.ok() && again->SerializeAsString() == assignment->SerializeAsString(),
           "an assignment stays as it is");
  return 0;
}

}  // namespace longhaul::fuzz::assignment_fuzz
