// The symbol that MakeCudaGraphRecorder looks up in the module longhaul_cuda_graphs.
#pragma once

#include "worker/engine/device_graph.h"

extern "C" {
// The caller owns the result.
using LonghaulMakeCudaGraphRecorder = longhaul::GraphRecorder*(int device);
}
inline constexpr char kLonghaulMakeCudaGraphRecorder[] = "longhaul_make_cuda_graph_recorder";
