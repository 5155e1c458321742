// Converts between values of core and store and messages of the contract. Pure functions.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "common/io/digest.h"
#include "common/wire/proto_values.h"
#include "coordinator/effects/control_plane.h"
#include "coordinator/store/round_records.h"
#include "longhaul/v1/fragment.pb.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

// Of times too, which the functions below would hide.
using longhaul::ToProto;

v1::Commit ToProto(const CommitRecord& commit, const std::string& job_id);

v1::JobError ToProto(const JobFault& fault);
v1::SetAside ToProto(const SetAsideView& set_aside, absl::Time now);
// The limit in bytes of a text from a pool or a user, which is stored with the job and shown. A
// longer text is cut between two characters.
inline constexpr size_t kFaultTextBytesMax = 4096;
std::string BoundedFaultText(const std::string& text);
JobFault FromProto(const v1::JobError& error);

}  // namespace longhaul::coordinator
