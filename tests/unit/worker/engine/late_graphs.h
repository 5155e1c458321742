// Graphs of the late device, which record as CUDA's do: what is queued on a stream that is recorded
// does not run, but runs at each launch, with the same addresses. Memory that is allocated in a
// recording is used again by later recordings, once it is freed. Whoever waits for the device, or
// brings values from host memory, ends a recording with an error.
#pragma once

#include <memory>

#include "worker/engine/device_graph.h"

namespace longhaul {

std::unique_ptr<GraphRecorder> MakeLateGraphRecorder();

// For torch's memory and operations on the device (late_kernels.cc):

// Throws if the calling thread's stream is recorded.
void CheckNotRecorded(const char* what);
struct LateGraphMemory;
// Of the graphs that are recorded on the calling thread's stream. Null: none are.
std::shared_ptr<LateGraphMemory> CurrentLateGraphMemory();
void* AllocateForGraphs(LateGraphMemory& memory, size_t bytes);
void FreeOfGraphs(LateGraphMemory& memory, void* data, size_t bytes);

}  // namespace longhaul
