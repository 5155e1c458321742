// The reference Communicator: N ranks are N threads of one process. It defines the meaning of each
// collective, and other implementations are tested against it.
#pragma once

#include <memory>
#include <vector>

#include "worker/collective/communicator.h"

namespace longhaul {

// The communicators of one group, element r for rank r; size > 0. Each is used by its own thread.
// They share their group's state, and may be destroyed in any order. Destroying one aborts its
// group, like the end of a process, unless every rank has finished the same operations. Abort on
// one rank wakes all.
std::vector<std::unique_ptr<Communicator>> MakeThreadCommunicators(int size);

}  // namespace longhaul
