// What --alone makes of a spec: one pool trains as the spec says, without the others, so that it
// can be seen what they bring. Pure.
#pragma once

#include <string>

#include "longhaul/v1/job.pb.h"

namespace longhaul::cli {

// The pool keeps its own parameters: its contribution is what the coordinator has (an outer step
// without momentum, exact codecs), and nothing is merged into it. `-alone` is added to the name,
// unless `named`: the user chose it.
void TrainAlone(const std::string& pool, bool named, v1::JobSpec& spec);

}  // namespace longhaul::cli
