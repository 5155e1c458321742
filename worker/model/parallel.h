// Work shared between the threads of torch.
#pragma once

#include <cstdint>

#include "ATen/Parallel.h"

namespace longhaul {

// work(task, thread) for tasks [0, count): each thread has a run of them, of equal length but for one.
template <typename Work>
void ForTasks(int64_t count, Work&& work) {
  at::parallel_for(0, count, 1, [&](int64_t first, int64_t end) {
    for (int64_t task = first; task < end; ++task) work(task, at::get_thread_num());
  });
}

}  // namespace longhaul
