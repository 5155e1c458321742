// Shares tasks between the threads of torch. Blocks until all are done.
#pragma once

#include <cstdint>

#include "ATen/Parallel.h"

namespace longhaul {

// Calls work(task, thread) for tasks [0, count). Each thread gets a run of tasks; the runs differ
// in length by at most one.
template <typename Work>
void ForTasks(int64_t count, Work&& work) {
  at::parallel_for(0, count, 1, [&](int64_t first, int64_t end) {
    for (int64_t task = first; task < end; ++task) work(task, at::get_thread_num());
  });
}

}  // namespace longhaul
