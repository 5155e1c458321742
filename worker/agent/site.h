// What an agent finds out about its machine before it joins: whether its ranks can work there, how
// the pool's other nodes reach it, and which cores the ranks get.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "worker/agent/agent_options.h"

namespace longhaul {

// What the user may choose. Empty: PrepareSite chooses.
struct SiteChoice {
  // Of the pool.
  std::optional<int> nodes;
  // The number of this one.
  std::optional<int> node;
  // Of each rank.
  std::optional<int> threads;
  // none, node or cores: see CoreBinding.
  std::string bind_cores;
  // --work-dir was not given, and lies among the temporary files of all users.
  bool work_dir_in_temp = false;
};

// Checks `options`, which begin as the flags say and with a log, makes folders that are not there
// (state_dir, track_dir, one for tokens among temporary files), and completes them: the host's
// name, the node, its address in the pool, the ranks' cores, the capabilities. Call once, before
// the agent starts. May block for kBusyWindow, in which it measures which cores are busy. Errors:
//   INVALID_ARGUMENT     a flag is wrong, or contradicts another one; no retry corrects it
//   NOT_FOUND            a folder or program that a flag names is not there, or cannot be made
//   FAILED_PRECONDITION  --device cuda on a machine with fewer GPUs than ranks; the folder that
//                        --work-dir would be is another user's
// Others: those of IdentifyNode, AddressTowards, InterfaceOf and NameInCertificate.
absl::Status PrepareSite(const SiteChoice& choice, AgentOptions& options);

// Of it, what measuring the machine needs: the program of the ranks, and their cores. Errors as
// there.
absl::Status PrepareCores(const SiteChoice& choice, AgentOptions& options);

}  // namespace longhaul
