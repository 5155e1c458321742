// Memory requests of a feature gather: a warp of 32 threads reads rows of 4-byte elements straight
// from host memory, in lines of 128 bytes, with the index arithmetic of the gather kernel
// (common/graph/gather_index.h). Pure.
#pragma once

namespace longhaul::plan {

// The average number of lines that are touched for a row of `dim` elements, over rows that follow
// each other from an aligned address. A warp's access touches each line once. `aligned`: the
// accesses of a row begin at multiples of 128 bytes; otherwise, at the row's first element.
// Requires dim >= 1.
double GatherRequests(int dim, bool aligned);

}  // namespace longhaul::plan
