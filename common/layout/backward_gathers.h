// Which units' weights backward needs anew. The engine gathers so, and the planner counts so. Pure.
#pragma once

#include "common/layout/model_layout.h"

namespace longhaul {

// False for the last unit, whose backward follows its forward at once and has the same weights, and
// for an embedding, whose backward reads none. So neither is gathered for backward, and running
// its forward again would spare nothing.
inline bool GathersForBackward(const ModelLayout& layout, int unit) {
  return unit + 1 < static_cast<int>(layout.units.size()) &&
         layout.units[unit].kind != UnitKind::kEmbedding;
}

}  // namespace longhaul
