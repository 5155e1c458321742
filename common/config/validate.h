// Checks on a JobSpec whose defaults are filled in: what each field may be, what contradicts
// another field, and what is not built yet. Sizes of the model itself are checked by laying it out
// (job_spec.cc).
#pragma once

#include <string>
#include <vector>

#include "common/config/violation_list.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// No enum value and no field that this version does not know, as a newer client may send: the job
// would run without what it asks for (validate_known.cc).
void RequireKnown(const google::protobuf::Message& spec, ViolationList& violations);

// Data (validate_data.cc).
void ValidateData(const v1::JobSpec& spec, ViolationList& violations);

// Name, model, data, train, inner, partition, offload (validate_training.cc).
void ValidateTraining(const v1::JobSpec& spec, ViolationList& violations);

// Sync, pools, checkpoint, evaluation (validate_exchange.cc).
void ValidateExchange(const v1::JobSpec& spec, ViolationList& violations);

// What is legal but probably not what was meant (warnings.cc). For a spec without violations.
std::vector<std::string> WarningsOf(const v1::JobSpec& spec);

}  // namespace longhaul
