// Checks of a JobSpec whose defaults are filled in: the values of each field, contradictions
// between fields, and features that are not built yet. Laying the model out checks its sizes
// (job_spec.cc).
#pragma once

#include <string>
#include <vector>

#include "common/config/violation_list.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// Reports every enum value and field that this version does not know. A newer client may send them,
// and without them the job would not do what its user wants (validate_known.cc).
void RequireKnown(const google::protobuf::Message& spec, ViolationList& violations);

// Checks data (validate_data.cc).
void ValidateData(const v1::JobSpec& spec, ViolationList& violations);

// Checks what jobs on graphs alone have, or do not have; of others, that they have no graph
// (validate_graph.cc).
void ValidateGraph(const v1::JobSpec& spec, ViolationList& violations);

// Checks name, model, data, train, inner, partition, offload (validate_training.cc).
void ValidateTraining(const v1::JobSpec& spec, ViolationList& violations);

// Checks sync, pools, checkpoint, evaluation (validate_exchange.cc).
void ValidateExchange(const v1::JobSpec& spec, ViolationList& violations);

// Settings that are legal but probably mistakes (warnings.cc). For a spec without violations, whose
// model is cut into so many fragments.
std::vector<std::string> WarningsOf(const v1::JobSpec& spec, int fragments);

}  // namespace longhaul
