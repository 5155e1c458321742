// The reference Communicator: N ranks are N threads of one process. It says in the fewest lines
// what each collective means; other implementations are tested against it. For tests, examples and
// single-process runs.
#pragma once

#include <memory>
#include <vector>

#include "worker/collective/communicator.h"

namespace longhaul {

// The communicators of one group, element r for rank r; size > 0. Each goes to its own thread; they
// share their group's state and may be destroyed in any order. A destroyed communicator aborts its
// group, as a process that ends would, unless every rank has finished the same operations. Abort on
// one rank wakes all.
std::vector<std::unique_ptr<Communicator>> MakeThreadCommunicators(int size);

}  // namespace longhaul
