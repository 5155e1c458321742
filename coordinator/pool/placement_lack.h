// Why a job that has not begun got no pools: counts what each pool lacks for it. A detail of
// placement.h. Pure.
#pragma once

#include "coordinator/pool/placement.h"
#include "coordinator/pool/placement_board.h"

namespace longhaul {

// Call it when all pools were placed.
Lack LackOf(const PlacementBoard& board, const BoardJob& job);

}  // namespace longhaul
