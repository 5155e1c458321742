// `longhaul compare JOB...`: what differs between jobs, and their losses at equal numbers of
// tokens. With one job: its curves.
#pragma once

#include "coordinator/cli/client.h"
#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

inline constexpr int kComparedMax = 26;  // A letter each.

Outcome Compare(const Arguments& arguments, Client& client, const Environment& environment);

}  // namespace longhaul::cli
