#include "worker/collective/communicator_factory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/collective/cuda_module.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/collective/thread_communicator.h"

namespace longhaul {

absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const CommunicatorOptions& options) {
  switch (options.kind) {
    case CommunicatorKind::kThread:
      if (options.size != 1 || options.rank != 0) {
        return absl::InvalidArgumentError(
            "thread communicators of several ranks are made together");
      }
      return std::move(MakeThreadCommunicators(1)[0]);
    case CommunicatorKind::kGloo:
      return MakeGlooCommunicator({.rank = options.rank,
                                   .size = options.size,
                                   .hostname = options.hostname,
                                   .rendezvous = options.rendezvous,
                                   .timeout = options.timeout,
                                   .team = options.team});
    case CommunicatorKind::kNccl:
      return MakeNcclCommunicatorFromModule({.rank = options.rank,
                                             .size = options.size,
                                             .device = options.device,
                                             .rendezvous = options.rendezvous,
                                             .timeout = options.timeout},
                                            options.module_folder);
  }
  return absl::InvalidArgumentError("unknown kind of communicator");
}

absl::StatusOr<CommunicatorKind> ParseCommunicatorKind(absl::string_view name) {
  if (name == "thread") return CommunicatorKind::kThread;
  if (name == "gloo") return CommunicatorKind::kGloo;
  if (name == "nccl") return CommunicatorKind::kNccl;
  return absl::InvalidArgumentError(
      absl::StrCat("communicator '", name, "' is none of thread, gloo, nccl"));
}

}  // namespace longhaul
