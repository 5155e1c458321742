// The merge of a rank's live parameters with the outer ones (Streaming DiLoCo, arXiv 2501.18512,
// Algorithm 2).
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "common/base/thread_team.h"

namespace longhaul::session {

// live = alpha live + (1 - alpha) outer. `team` computes. Null: the calling thread does. The bits
// do not depend on the number of threads.
inline void MergeParameters(double alpha, absl::Span<const float> outer, absl::Span<float> live,
                            ThreadTeam* team) {
  const float keep = static_cast<float>(alpha), take = static_cast<float>(1 - alpha);
  ForParts(team, static_cast<int64_t>(live.size()), kLineGrain, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) live[i] = keep * live[i] + take * outer[i];
  });
}

}  // namespace longhaul::session
